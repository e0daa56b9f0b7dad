//! The engine as a whole: scenarios of one pod, as events.

mod dry_run;
mod field;
mod hold;
mod kubelet;
mod ladder;
mod linger;
mod lists;
mod operator;
mod pre_stop;
mod property;
mod scenarios;
mod snapshot;
pub(crate) mod stage;
mod table;
