//! Faults, as data.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The agent gets SIGKILL; the next one starts when the fault is over.
    Killed,
    /// The same with SIGTERM.
    Restarted,
    /// The agent is stopped.
    Stopped,
    /// The holder gets SIGKILL.
    HolderKilled,
    /// The holder is stopped.
    HolderStopped,
    /// The files of the run directory are deleted.
    Wiped,
    /// The same, and then the agent gets SIGKILL.
    WipedAndKilled,
    SocketsWiped,
    BadConfiguration,
    /// Another valid configuration file.
    Reconfigured,
    /// `usher.dev/mode: observe`
    Observes,
    /// `usher.dev/quit: observe`
    ObservesQuit,
    /// `usher.dev/hold: observe`
    ObservesHold,
    /// `usher.dev/quit: off`
    QuitOff,
    /// `usher.dev/hold: off`
    HoldOff,
    /// The kubelet responds with this status.
    KubeletSays(u16),
    /// It responds with half a list.
    KubeletGarbage,
    /// It does not respond.
    KubeletSilent,
    /// Its statuses are stale.
    KubeletSlow,
    /// The API server does not respond.
    ApiAway,
    /// Its watches end.
    WatchesEnd,
    /// Its responses to Events are lost, or reject them.
    EventsRefused,
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// The delay after the previous fault of the same lane.
    pub(crate) after: Duration,
    pub(crate) lasts: Duration,
    pub(crate) fault: Fault,
}

/// The target of a fault. Faults of different targets may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The agent, and its input.
    Agent,
    /// The kubelet and the API server.
    Servers,
}

impl Fault {
    /// The faults of a lane, by weight.
    pub(crate) const fn of(lane: Lane) -> &'static [(u64, Self)] {
        match lane {
            Lane::Agent => &[
                (5, Self::Killed),
                (3, Self::Restarted),
                (3, Self::Stopped),
                (2, Self::HolderKilled),
                (1, Self::HolderStopped),
                (2, Self::Wiped),
                (1, Self::WipedAndKilled),
                (1, Self::SocketsWiped),
                (2, Self::BadConfiguration),
                (2, Self::Reconfigured),
                (2, Self::Observes),
                (2, Self::ObservesQuit),
                (1, Self::ObservesHold),
                (2, Self::QuitOff),
                (1, Self::HoldOff),
            ],
            Lane::Servers => &[
                (2, Self::KubeletSays(401)),
                (2, Self::KubeletSays(500)),
                (2, Self::KubeletGarbage),
                (2, Self::KubeletSilent),
                (2, Self::KubeletSlow),
                (3, Self::ApiAway),
                (2, Self::WatchesEnd),
                (2, Self::EventsRefused),
            ],
        }
    }

    /// Whether it ends the agent.
    pub(crate) const fn ends_agent(self) -> bool {
        matches!(self, Self::Killed | Self::Restarted | Self::WipedAndKilled)
    }

    /// Whether it ends or stops the agent.
    pub(crate) const fn stops_agent(self) -> bool {
        self.ends_agent() || matches!(self, Self::Stopped)
    }

    /// Whether the kubelet returns no list.
    pub(crate) const fn keeps_list(self) -> bool {
        matches!(
            self,
            Self::KubeletSays(_) | Self::KubeletGarbage | Self::KubeletSilent
        )
    }

    /// Whether it forbids the termination of sidecars while it lasts.
    pub(crate) const fn forbids_quits(self) -> bool {
        matches!(self, Self::Observes | Self::ObservesQuit | Self::QuitOff)
    }

    /// Whether decisions may be those of observe mode, by the mode or by an agent that started without its
    /// settings.
    pub(crate) const fn may_observe(self) -> bool {
        self.forbids_quits()
            || self.stops_agent()
            || matches!(
                self,
                Self::ObservesHold
                    | Self::HoldOff
                    | Self::BadConfiguration
                    | Self::ApiAway
                    | Self::Wiped
            )
    }
}
