//! The keys of the file, and their defaults.

use std::{collections::BTreeSet, time::Duration};

use serde::Deserialize;

use super::{DefaultModes, Defaults, Ladder, OnDeadline};
use crate::{base::duration::Written, recipe::Recipe, settings::mode::Mode};

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawConfig {
    pub(super) mode: Option<Mode>,
    pub(super) modes: RawModes,
    pub(super) recipes: Vec<Recipe>,
    pub(super) excluded_namespaces: BTreeSet<String>,
    pub(super) defaults: RawDefaults,
    pub(super) ladder: RawLadder,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawDefaults {
    pub(super) quit: Option<bool>,
    pub(super) quit_delay: Option<Written>,
    pub(super) drain: Option<Written>,
    pub(super) spoil: Option<bool>,
    pub(super) hold: Option<bool>,
    pub(super) hold_deadline: Option<Written>,
    pub(super) on_deadline: Option<OnDeadline>,
    pub(super) hold_again: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawLadder {
    pub(super) attempt: Option<Written>,
    pub(super) settle: Option<Written>,
    pub(super) settle_signal: Option<Written>,
    pub(super) listen: Option<Written>,
    pub(super) kill: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawModes {
    pub(super) quit: Option<Mode>,
    pub(super) hold: Option<Mode>,
    pub(super) linger: Option<Mode>,
}

impl RawConfig {
    pub(super) const fn modes(&self) -> DefaultModes {
        DefaultModes {
            all: self.mode,
            quit: self.modes.quit,
            hold: self.modes.hold,
            linger: self.modes.linger,
        }
    }
}

fn or(written: Option<Written>, default: Duration) -> Duration {
    written.map_or(default, |written| written.0)
}

impl RawDefaults {
    pub(super) fn resolve(&self) -> Defaults {
        let default = Defaults::default();
        Defaults {
            quit: self.quit.unwrap_or(default.quit),
            quit_delay: or(self.quit_delay, default.quit_delay),
            drain: or(self.drain, default.drain),
            spoil: self.spoil.unwrap_or(default.spoil),
            hold: self.hold.unwrap_or(default.hold),
            hold_deadline: or(self.hold_deadline, default.hold_deadline),
            on_deadline: self.on_deadline.unwrap_or(default.on_deadline),
            hold_again: self.hold_again.unwrap_or(default.hold_again),
        }
    }
}

impl RawLadder {
    pub(super) fn resolve(&self) -> Ladder {
        let default = Ladder::default();
        Ladder {
            attempt: or(self.attempt, default.attempt),
            settle: or(self.settle, default.settle),
            settle_signal: or(self.settle_signal, default.settle_signal),
            listen: or(self.listen, default.listen),
            kill: self.kill.unwrap_or(default.kill),
        }
    }
}
