//! The decisions of usher, without IO, clocks, threads or locks.
//!
//! Everything that happens on the node arrives as an [`Event`], everything
//! that usher does leaves as an [`Action`], and [`Engine::step`] is all there
//! is between them:
//!
//! ```text
//! kernel, kubelet, API server ─► Event ─► Engine::step(now, event) ─► Action ─► edges
//! ```
//!
//! The same sequence of events gives the same actions, so every rule can be
//! tested as a table or a property on a machine without a single pod.

pub mod action;
pub mod admin;
mod agenda;
pub mod annotation;
mod asked;
pub mod bundle;
pub mod capture;
pub mod cgroup;
pub mod check;
pub mod cni;
pub mod config;
pub mod conflist;
pub mod conns;
pub mod decision;
pub mod diagnosis;
pub mod directive;
pub mod duration;
pub mod engine;
pub mod event;
mod fetch;
mod finish;
pub mod hold;
pub mod http;
pub mod id;
pub mod image;
mod json;
mod lifecycle;
pub mod metric;
pub mod mode;
pub mod mountinfo;
mod namespace;
pub mod notice;
pub mod order;
mod plan;
pub mod pod;
pub mod podlist;
pub mod policy;
pub mod printable;
pub mod process;
mod quit;
pub mod recipe;
pub mod remains;
pub mod ruleset;
pub mod select;
pub mod start;
pub mod step;
pub mod syn;
pub mod sysdump;
pub mod table;
pub mod taint;
pub mod time;
pub mod timeline;
mod tracked;
pub mod tuning;

pub use action::Action;
pub use decision::Decision;
pub use engine::Engine;
pub use event::Event;
