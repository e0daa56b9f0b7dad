//! What is kept of a node for somebody who cannot reach it: which files a dump has, what is left out of them, and what
//! the list at its beginning says.
//!
//! A dump is the documents of the read commands, as `-o json` prints them, and some texts of the node. Everything goes
//! through [`Redaction`] on its way: it looks at all of a document, whatever command made it, so a new one cannot forget
//! to. What could not be had is listed with the reason; what was left out is counted by rule, never quoted.

mod key;
pub mod manifest;
pub mod measure;
pub mod place;
pub mod pod;
pub mod redaction;
mod secret;

pub use self::{
    manifest::Manifest,
    place::Place,
    redaction::{Redaction, Rule},
};
