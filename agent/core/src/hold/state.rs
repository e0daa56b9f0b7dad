//! How far the hold of one pod is.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Opened, Probe, Tally};
use crate::{
    base::{
        id::{ContainerId, SandboxId},
        time::Timestamp,
    },
    cni::protocol::Reply,
    decision::Kind,
    start::holding::Starts,
};

/// The hold of a pod.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// The pod's newest sandbox, as long as it lives.
    pub(crate) sandbox: Option<Sandbox>,
    /// Somebody has looked for what an earlier agent left.
    pub(crate) looked: bool,
    /// A person wants connections to wait: mode and opt-out do not count.
    pub(crate) by_hand: bool,
    /// Its namespace is being opened for that.
    pub(crate) opening: bool,
    /// Starts of its apps.
    pub(crate) starts: Starts,
}

impl Hold {
    /// Whether connections wait.
    pub(crate) fn holds(&self) -> bool {
        self.sandbox.as_ref().is_some_and(Sandbox::holds)
    }
}

/// A sandbox whose network namespace is open.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: SandboxId,
    /// Runs of the pod that had begun when it came.
    pub(crate) begun: u64,
    /// What the plugin was told.
    pub(crate) reply: Option<Reply>,
    /// It was found, and not told by the plugin: its id is a container's.
    pub(crate) found: bool,
    /// Ports that an earlier agent had shut, until that has been said.
    pub(crate) unsaid: Option<Vec<u16>>,
    /// When it is open it is to be judged again: what only counted is to hold.
    pub(crate) again: bool,
    /// A person had it opened: it is not shut again by itself.
    pub(crate) released: bool,
    pub(crate) state: State,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Whether to hold is not decided.
    Pending,
    /// The table is being made.
    Arming {
        count_only: bool,
        ports: BTreeSet<u16>,
    },
    /// Connections wait.
    Shut(Shut),
    /// The last doors are being opened.
    Opening { why: Opened, shut: Shut },
    /// Nothing waits.
    Over {
        /// Runs of its sidecars that have been seen to live since.
        runs: BTreeSet<ContainerId>,
    },
}

impl State {
    pub(crate) const fn over() -> Self {
        Self::Over {
            runs: BTreeSet::new(),
        }
    }
}

impl Shut {
    pub(crate) const fn new(
        now: Timestamp,
        deadline: Timestamp,
        count_only: bool,
        ports: BTreeSet<u16>,
    ) -> Self {
        Self {
            since: now,
            from: now,
            deadline,
            count_only,
            ports,
            watched: BTreeSet::new(),
            listens: BTreeMap::new(),
            renew: None,
            // What is only counted is not worth a change of the table.
            counts: count_only,
            adopted: false,
        }
    }

    /// How this came to its end.
    pub(crate) fn opened(
        &self,
        now: Timestamp,
        why: Opened,
        tally: Tally,
        starts: Vec<(String, Duration)>,
    ) -> Kind {
        let shut = now.since(self.since).saturating_sub(tally.ago);
        if self.count_only {
            Kind::WouldHold {
                shut,
                tally,
                starts,
            }
        } else {
            Kind::HoldReleased {
                why,
                shut,
                adopted: self.adopted,
                tally,
            }
        }
    }
}

/// Doors that are shut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shut {
    pub(crate) since: Timestamp,
    /// What the deadline counts from.
    pub(crate) from: Timestamp,
    pub(crate) deadline: Timestamp,
    /// It only counts.
    pub(crate) count_only: bool,
    /// Ports whose doors are shut.
    pub(crate) ports: BTreeSet<u16>,
    /// What is being watched for.
    pub(crate) watched: BTreeSet<Probe>,
    /// When a sidecar's first port was listened at.
    pub(crate) listens: BTreeMap<String, Timestamp>,
    /// When the kernel has to be told again to keep the doors shut.
    pub(crate) renew: Option<Timestamp>,
    /// Time counts: there may be connections that wait.
    pub(crate) counts: bool,
    /// An earlier agent shut them.
    pub(crate) adopted: bool,
}

impl Sandbox {
    pub(crate) fn new(id: SandboxId, begun: u64) -> Self {
        Self {
            id,
            begun,
            reply: None,
            found: false,
            unsaid: None,
            again: false,
            released: false,
            state: State::Pending,
        }
    }

    /// Whether connections wait in it.
    pub(crate) fn holds(&self) -> bool {
        match &self.state {
            State::Shut(shut) | State::Opening { shut, .. } => !shut.count_only,
            State::Arming { count_only, .. } => !count_only,
            State::Pending | State::Over { .. } => false,
        }
    }
}
