//! The engine as a whole: scenes of one pod's life, told as events.

mod forecast;
mod hold;
mod kubelet;
mod ladder;
mod lists;
mod order;
mod property;
mod scenes;
pub(crate) mod stage;
mod table;
mod view;
