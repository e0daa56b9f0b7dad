//! The state of one pod's hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Probe, Released, Tally};
use crate::{
    base::{
        id::{ContainerId, SandboxId},
        time::Timestamp,
    },
    cni::protocol::Reply,
    decision::Kind,
    engine::action::Action,
    start::state::Starts,
};

/// How long the kernel holds ports beyond the last renewal, where the pod's configuration holds them until the
/// sidecar is ready. If the agent dies, they are released by then.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
/// When a lease is renewed: a worker process that ends may lose one renewal, or two.
pub(crate) const RENEWAL: Duration = Duration::from_secs(6);

#[derive(Debug, Clone, Default)]
pub(crate) struct Hold {
    /// The pod's newest sandbox, as long as it lives.
    pub(crate) sandbox: Option<Sandbox>,
    /// The agent has looked for the rules of an earlier agent.
    pub(crate) inspected: bool,
    /// An operator requested the hold: mode and opt-out do not apply.
    pub(crate) by_operator: bool,
    /// The pod's namespace is being opened for the operator's request.
    pub(crate) opens_namespace: bool,
    pub(crate) starts: Starts,
}

impl Hold {
    pub(crate) fn holds(&self) -> bool {
        self.sandbox.as_ref().is_some_and(Sandbox::holds)
    }
}

/// A sandbox with an open network namespace.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox {
    pub(crate) id: SandboxId,
    /// The number of runs of the pod that began before the sandbox existed.
    pub(crate) first_run: u64,
    pub(crate) origin: Origin,
    pub(crate) phase: HoldPhase,
    /// A request for the pod's Namespace failed while its values were unknown.
    pub(crate) namespace_failed: bool,
    /// A sidecar ended after an earlier decision: an app that has started is no reason against a new hold.
    pub(crate) is_again: bool,
    /// An earlier agent had installed a table here, so the init containers had ended before this agent started.
    pub(crate) had_table: bool,
}

/// How the agent learned of a sandbox.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// The CNI plugin announced it, and gets one reply.
    Announced { reply: Option<Reply> },
    /// The agent opened the namespace of a running container, which gives the sandbox its id.
    Found {
        /// Ports that an earlier agent held, until that is reported.
        unreported_ports: Option<Vec<u16>>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HoldPhase {
    /// It is not decided yet whether to hold.
    Pending,
    /// The table is being installed.
    Arming {
        count_only: bool,
        ports: BTreeSet<u16>,
    },
    /// Connections are held or counted.
    Holding(HeldPorts),
    /// The last ports are being released.
    Releasing {
        why: Released,
        held: HeldPorts,
        /// Afterwards a new hold is decided: a table that only counts is replaced by one that holds.
        rearm: bool,
    },
    Released {
        /// An operator released it: it is not armed again automatically.
        by_operator: bool,
        /// Runs of its sidecars that were observed since.
        sidecar_runs: BTreeSet<ContainerId>,
    },
}

impl HoldPhase {
    /// Whether an operator released the hold, or is releasing it.
    pub(crate) const fn is_released_by_operator(&self) -> bool {
        matches!(
            self,
            Self::Released {
                by_operator: true,
                ..
            } | Self::Releasing {
                why: Released::ByOperator,
                ..
            }
        )
    }
}

/// What a table does with the connections to its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Observe mode: it counts them.
    CountOnly,
    /// It counts them, and an earlier agent installed it.
    AdoptedCountOnly,
    Holding,
    /// It holds them, and an earlier agent installed it.
    Adopted,
}

/// Ports that are held or counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldPorts {
    pub(crate) since: Timestamp,
    /// When the deadline began to count.
    pub(crate) from: Timestamp,
    pub(crate) deadline: Timestamp,
    pub(crate) table: TableKind,
    pub(crate) ports: BTreeSet<u16>,
    pub(crate) watched: BTreeSet<Probe>,
    /// When probes that failed are repeated.
    pub(crate) probe_retries: BTreeMap<Probe, Timestamp>,
    /// When each port was found to have a listener.
    pub(crate) listening: BTreeMap<u16, Timestamp>,
    /// Ports were released although the readiness probe of their sidecar had not succeeded.
    pub(crate) probe_failed: bool,
    /// When the kernel's timeouts are renewed.
    pub(crate) renew: Option<Timestamp>,
    /// An app has started, so that connections may be held or counted: the deadline is no longer extended.
    pub(crate) is_timed: bool,
    /// When the deadline was found to have passed before an app started.
    pub(crate) over_since: Option<Timestamp>,
    /// An app had started before the table was installed: the pod was reported as not held.
    pub(crate) is_late: bool,
}

impl HeldPorts {
    pub(crate) const fn new(
        now: Timestamp,
        deadline: Timestamp,
        table: TableKind,
        ports: BTreeSet<u16>,
    ) -> Self {
        Self {
            since: now,
            from: now,
            deadline,
            table,
            ports,
            watched: BTreeSet::new(),
            probe_retries: BTreeMap::new(),
            listening: BTreeMap::new(),
            probe_failed: false,
            renew: None,
            is_timed: false,
            over_since: None,
            is_late: false,
        }
    }

    pub(crate) const fn count_only(&self) -> bool {
        matches!(
            self.table,
            TableKind::CountOnly | TableKind::AdoptedCountOnly
        )
    }

    pub(crate) const fn is_adopted(&self) -> bool {
        matches!(self.table, TableKind::Adopted | TableKind::AdoptedCountOnly)
    }

    /// Why the last ports are released. A failed probe is reported, even if another sidecar was ready later.
    pub(crate) const fn reason(&self, why: Released) -> Released {
        match why {
            Released::Ready if self.probe_failed => Released::ProbeFailed,
            _ => why,
        }
    }

    /// The decision that reports the end of the hold.
    pub(crate) fn released(
        &self,
        now: Timestamp,
        why: Released,
        tally: Tally,
        starts: Vec<(String, Duration)>,
    ) -> Kind {
        let held = now.since(self.since).saturating_sub(tally.ago);
        match self.table {
            TableKind::CountOnly | TableKind::AdoptedCountOnly => Kind::WouldHold {
                why,
                held,
                tally,
                starts,
            },
            TableKind::Holding | TableKind::Adopted => Kind::HoldReleased {
                why,
                held,
                adopted: self.is_adopted(),
                tally,
            },
        }
    }
}

impl Sandbox {
    pub(crate) const fn new(id: SandboxId, first_run: u64, origin: Origin) -> Self {
        Self {
            id,
            first_run,
            origin,
            phase: HoldPhase::Pending,
            namespace_failed: false,
            is_again: false,
            had_table: false,
        }
    }

    /// Releases the ports if they are held or counted. With `rearm`, a new hold is decided afterwards.
    pub(crate) fn release(&mut self, why: Released, rearm: bool, actions: &mut Vec<Action>) {
        if let HoldPhase::Holding(held) = &self.phase {
            self.phase = HoldPhase::Releasing {
                why,
                held: held.clone(),
                rearm,
            };
            actions.push(Action::ReleaseAll {
                sandbox: self.id.clone(),
            });
        }
    }

    pub(crate) const fn is_found(&self) -> bool {
        matches!(self.origin, Origin::Found { .. })
    }

    /// Whether the CNI plugin has no reply. The runtime starts no container of the sandbox before the plugin ends, so
    /// where one has started, the plugin has given up.
    pub(crate) const fn awaits_reply(&self) -> bool {
        matches!(self.origin, Origin::Announced { reply: None })
    }

    pub(crate) fn holds(&self) -> bool {
        match &self.phase {
            HoldPhase::Holding(held) | HoldPhase::Releasing { held, .. } => !held.count_only(),
            HoldPhase::Arming { count_only, .. } => !count_only,
            HoldPhase::Pending | HoldPhase::Released { .. } => false,
        }
    }
}
