//! The decisions of usher, without IO, clocks, threads or locks.
//!
//! Everything that happens on the node arrives as an [`Event`], everything that usher does leaves as an [`Action`], and
//! [`Engine::apply`] is the only connection between them, with the timers that [`Engine::run_timers`] runs:
//!
//! ```text
//! kernel, kubelet, API server ─► Event ─► Engine::apply(now, event) ─► Action ─► edges
//! ```
//!
//! The same sequence of events gives the same actions, so every rule can be
//! tested as a table or a property on a machine without a single pod.

pub mod admin;
pub mod base;
pub mod cleanup;
pub mod cni;
mod cost;
pub mod decision;
pub mod engine;
pub mod hold;
pub mod kube_event;
pub mod linger;
pub mod metric;
pub mod node;
pub mod plan;
pub mod pod;
pub mod quit;
pub mod recipe;
pub mod settings;
pub mod start;
pub mod worker;

pub use self::{
    decision::Decision,
    engine::{
        Engine,
        action::Action,
        event::{Event, NamespaceReply},
    },
};
