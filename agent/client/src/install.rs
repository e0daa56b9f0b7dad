//! The CNI plugin on the host: its binary, and its entry in the network configuration.
//!
//! | module | contents |
//! | --- | --- |
//! | [`settings`] | what is installed, and where |
//! | [`entry`] | the state of the entry, and the steps that insert or remove it |
//! | [`step`] | atomic steps of a change, which detect concurrent writers |
//! | [`binary`] | the binary |
//! | [`removal`] | finds and removes the entry and the binary |
//! | [`files`] | bounded reads of the host's directories, temporary files |

pub mod binary;
pub mod entry;
pub mod error;
pub mod files;
pub mod removal;
pub mod settings;
pub mod step;
