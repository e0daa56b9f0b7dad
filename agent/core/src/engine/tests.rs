//! The engine as a whole: scenes of one pod's life, told as events.

mod hold;
mod kubelet;
mod property;
mod scenes;
mod stage;
mod table;
