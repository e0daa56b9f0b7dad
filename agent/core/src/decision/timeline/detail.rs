//! A decision as data, for programs; its reason is for people.
//!
//! It is written to the timeline and to the admin socket, so names and fields are stable. Every
//! field may be absent: an older agent did not write it.

use std::{mem, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{decision::Kind, hold::Released};

/// The decision, by its name in log lines and metrics, with its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "decision", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(
    missing_docs,
    reason = "each variant is documented at the `Kind` of the same name"
)]
pub enum Detail {
    NotApplicable,
    Waiting,
    RuntimeUnsupported,
    VersionReported,
    PodFinished,
    WouldQuit,
    DrainAccepted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drain_ms: Option<u64>,
    },
    QuitAccepted {
        /// The exit code that the step is known to cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    StepFailed,
    SidecarEnded {
        /// usher had requested the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requested: Option<bool>,
    },
    GaveUp,
    Skipped,
    QuitOnDeletion,
    WouldQuitOnDeletion,
    LeftToKubelet,
    InvalidAnnotation,
    NotHeld,
    HoldArmed {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ports: Vec<u16>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
    },
    HoldReleased {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Released>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connections: Option<u64>,
    },
    HoldFailed,
    HoldExtended {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
    },
    HoldAdopted {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ports: Vec<u16>,
    },
    Quarantined,
    WouldHold {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connections: Option<u64>,
    },
    StartHeld {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ms: Option<u64>,
    },
    StartReleased {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_ms: Option<u64>,
    },
    StartMissed,
    StartNotHeld,
    LingerHeld,
    LingerReleased {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_ms: Option<u64>,
    },
    LingerDrained,
    LingerDrainFailed,
    PreStopHeld,
    PreStopReleased {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_ms: Option<u64>,
    },
    PreStopUnsupported,
    LingerKilled,
    WouldLinger {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_before_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connections: Option<u64>,
    },
    WouldPreStop {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connections: Option<u64>,
    },
    LingerUnsupported,
    OperatorRequest,
    /// The name or a field comes from an agent of another version.
    #[serde(untagged)]
    Unknown {
        /// The name as it was read.
        decision: Box<str>,
    },
}

impl Detail {
    /// The decision with this name, without figures.
    pub fn named(name: &str) -> Self {
        let unknown = || Self::Unknown {
            decision: name.into(),
        };
        let tagged = serde_json::json!({"decision": name});
        serde_json::from_value(tagged).unwrap_or_else(|_| unknown())
    }

    /// Whether both are the same decision, whatever their figures.
    pub fn is_same(&self, other: &Self) -> bool {
        mem::discriminant(self) == mem::discriminant(other)
    }

    /// The decision's name in logs and metrics.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { decision } => decision,
            known => known.into(),
        }
    }
}

impl From<&Kind> for Detail {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::DrainAccepted { time, .. } => Self::DrainAccepted {
                drain_ms: millis(*time),
            },
            Kind::QuitAccepted { code, .. } => Self::QuitAccepted {
                exit_code: code.known(),
            },
            Kind::SidecarEnded { requested, .. } => Self::SidecarEnded {
                requested: Some(*requested),
            },
            Kind::HoldArmed {
                held_ports,
                deadline,
                ..
            } => Self::HoldArmed {
                ports: held_ports.iter().map(|(_, port)| *port).collect(),
                deadline_ms: millis(*deadline),
            },
            Kind::HoldReleased {
                why, held, tally, ..
            } => Self::HoldReleased {
                cause: Some(*why),
                held_ms: millis(*held),
                connections: u64::try_from(tally.connections).ok(),
            },
            Kind::HoldExtended { deadline } => Self::HoldExtended {
                deadline_ms: millis(*deadline),
            },
            Kind::HoldAdopted { ports } => Self::HoldAdopted {
                ports: ports.clone(),
            },
            Kind::WouldHold { held, tally, .. } => Self::WouldHold {
                held_ms: millis(*held),
                connections: u64::try_from(tally.connections).ok(),
            },
            Kind::StartHeld(start) => Self::StartHeld {
                limit_ms: millis(start.limit),
            },
            Kind::StartReleased { held, .. } => Self::StartReleased {
                held_ms: millis(*held),
            },
            Kind::LingerReleased { held, .. } => Self::LingerReleased {
                held_ms: millis(*held),
            },
            Kind::PreStopReleased { held, .. } => Self::PreStopReleased {
                held_ms: millis(*held),
            },
            Kind::WouldLinger {
                ended_before,
                connections,
            } => Self::WouldLinger {
                ended_before_ms: millis(*ended_before),
                connections: *connections,
            },
            Kind::WouldPreStop { ran, connections } => Self::WouldPreStop {
                ran_ms: millis(*ran),
                connections: Some(*connections),
            },
            other => Self::named(other.into_str()),
        }
    }
}

fn millis(time: Duration) -> Option<u64> {
    u64::try_from(time.as_millis()).ok()
}
