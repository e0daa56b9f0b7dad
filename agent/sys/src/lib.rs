//! The Linux edges of usher, one module per kernel facility.
//!
//! Nothing is decided here: the modules turn what the kernel shows into values
//! of `usher_core`, and do single things to single processes.

pub mod bundle;
pub mod capability;
pub mod cgroup;
pub mod container;
pub mod directory;
pub mod exchange;
pub mod fanotify;
pub mod inject;
mod inotify;
pub mod netlink;
pub mod netns;
pub mod nflog;
pub mod nfqueue;
pub mod nft;
pub mod owner;
pub mod packet;
pub mod pidfd;
pub mod priority;
pub mod probe;
pub mod proc;
mod readiness;
pub mod seqpacket;
pub mod sockdiag;
mod statx;
pub mod text;
pub mod usage;
pub mod watchdog;
