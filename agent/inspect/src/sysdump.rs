//! The layout of a sysdump, the redaction of secrets, and the manifest.
//!
//! A sysdump has the documents of the read commands, as `-o json` prints them, and some files of the node. All content
//! passes [`Redaction`], which processes whole documents of any command, so a new command cannot bypass it. The
//! manifest lists missing files with the reason, and counts redactions by rule without quoting them.

mod key;
pub mod manifest;
pub mod measure;
pub mod path;
pub mod pod;
pub mod redaction;
mod secret;

/// The text that replaces a secret.
const REDACTED: &str = "[redacted]";

pub use self::{
    manifest::Manifest,
    redaction::{Redaction, Rule},
};
