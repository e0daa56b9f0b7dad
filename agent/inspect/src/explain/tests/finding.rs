//! The conditions, the evidence and the text of each finding.

mod certificate;
mod decided;
mod early_start;
mod end;
mod fold;
mod mesh;
mod native;
mod own_hold;
mod probe;
mod quit_endpoint;
mod remedy;
mod shell;
mod start;
mod stays;

use super::*;
