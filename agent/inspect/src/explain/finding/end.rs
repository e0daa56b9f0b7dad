//! Pods that do not end, or end with the wrong result.

pub(in crate::explain) mod deletion;
pub(in crate::explain) mod exit_code;
pub(in crate::explain) mod quit_endpoint;
pub(in crate::explain) mod shell;
pub(in crate::explain) mod stays;
pub(in crate::explain) mod unknown_helper;

use super::{Finding, Id, Severity, short};
