//! The Linux edges of usher, one module per kernel facility.
//!
//! Nothing is decided here: the modules turn what the kernel shows into values
//! of `usher_core`, and do single things to single processes.

pub mod files;
pub mod net;
pub mod oci;
pub mod pods;
pub mod process;
pub mod seqpacket;
