//! The messages between the agent and its worker process: JSON on a socket of type SOCK_SEQPACKET, so that a message is
//! never divided. Both ends are the same binary.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::QuarantineReason;
use crate::{
    base::id::{ContainerId, ContainerKey, NetnsId, Pid, SandboxId},
    hold::{Probe, Remains, Tally, ruleset::Wanted},
    linger::pre_stop::traffic::Sample,
    plan::version_query::VersionRequest,
    quit::outcome::Outcome,
    recipe::step::{Request, Signal},
};

/// The longest message. A reply that would be longer is sent without what the pod determines of it.
pub const LONGEST_MESSAGE: usize = 160 * 1024;

/// Identifies a job until its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// A job in one network namespace. Its descriptors come with the message, in the order that each variant gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub id: JobId,
    pub netns: NetnsId,
    pub job: Job,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "kebab-case")]
pub enum Job {
    /// Read the rules of the namespace, so that the first request need not. Descriptor: namespace. It has no reply.
    Check,
    /// Send a request to a sidecar. Descriptors: pidfd of its init process, and its namespace or, where it is
    /// prepared, an open TCP socket in it.
    Request {
        pid: Pid,
        request: Request,
        timeout: Duration,
        prepared: bool,
    },
    /// Query a sidecar's version. Descriptors: pidfd, namespace.
    Query(VersionRequest),
    /// Signal a process of a container by its name. Descriptor: pidfd of the init process.
    Signal {
        key: ContainerKey,
        cgroup: PathBuf,
        process: String,
        signal: Signal,
    },
    /// Sample what clients have sent to the pod of this container since the previous job. Descriptor: namespace.
    SampleTraffic {
        id: ContainerId,
        status_ports: Vec<u16>,
    },
    /// Install the table of a sandbox. Descriptor: namespace.
    Arm { sandbox: SandboxId, wanted: Wanted },
    /// Look for the table of an earlier worker or agent. Descriptor: namespace.
    Adopt { sandbox: SandboxId },
    /// Probe until it succeeds or the sandbox is released. Descriptor: namespace.
    Probe { sandbox: SandboxId, probe: Probe },
    /// Release connections to these ports.
    ReleasePorts { sandbox: SandboxId, ports: Vec<u16> },
    /// Release every connection and delete the table.
    ReleaseAll { sandbox: SandboxId },
    /// Set the timeout of these held ports, from now on.
    Renew {
        sandbox: SandboxId,
        ports: Vec<u16>,
        timeout: Duration,
    },
    /// Replace the table.
    Repair { sandbox: SandboxId, wanted: Wanted },
    /// Close everything in the namespace. It has no reply.
    Forget {
        sandbox: SandboxId,
        table: ForgottenTable,
    },
}

/// What becomes of the table of a sandbox that is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForgottenTable {
    /// The worker deletes it.
    Deleted,
    /// The worker deletes it, even if an earlier job has left it and no task of the worker knows it.
    LeftoverDeleted,
    /// It stays: the kernel releases its ports at their deadline.
    Kept,
}

/// What the worker reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// [`Job::Request`] or [`Job::Signal`] is over.
    Attempted {
        id: JobId,
        outcome: Outcome,
    },
    Answered {
        id: JobId,
        version: Option<String>,
    },
    TrafficSampled {
        id: JobId,
        sample: Result<Sample, String>,
    },
    Armed {
        id: JobId,
        result: Result<(), String>,
    },
    Adopted {
        id: JobId,
        result: Result<Option<Remains>, String>,
    },
    ProbeSucceeded {
        id: JobId,
    },
    /// Some ports are released, or timeouts are renewed, or the table is replaced.
    Done {
        id: JobId,
    },
    /// Everything is released: as ordered, or because the hold failed.
    Released {
        sandbox: SandboxId,
        result: Result<Tally, String>,
    },
    /// A job has not returned in time, and its pod's rules are not the reason. A request fails on its own; a change delays
    /// all changes of its namespace.
    Late {
        netns: NetnsId,
        is_change: bool,
    },
    /// The namespace is in quarantine. Its jobs get no reply.
    Quarantined {
        netns: NetnsId,
        reason: QuarantineReason,
    },
    /// The system call that was stuck has returned.
    Recovered {
        netns: NetnsId,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidMessage {
    #[error("message between agent and worker cannot be read")]
    Form(#[from] serde_json::Error),
    #[error("job of {0} bytes is longer than {LONGEST_MESSAGE}")]
    TooLong(usize),
}

impl Job {
    /// The time limit of the reply. None where the reply depends on the pod, or the job has none.
    pub fn limit(&self) -> Option<Duration> {
        match self {
            Self::Request { timeout, .. } => Some(*timeout + MARGIN),
            Self::Query(_) => Some(QUERY + MARGIN),
            Self::SampleTraffic { .. } => Some(SAMPLE + MARGIN),
            Self::Signal { .. }
            | Self::Arm { .. }
            | Self::Adopt { .. }
            | Self::ReleasePorts { .. }
            | Self::ReleaseAll { .. }
            | Self::Renew { .. }
            | Self::Repair { .. } => Some(CALLS + MARGIN),
            Self::Check | Self::Probe { .. } | Self::Forget { .. } => None,
        }
    }
}

/// How long a version query may take.
pub const QUERY: Duration = Duration::from_secs(1);
/// How long a sample of a pod's traffic may take: the kernel lists its sockets, of which there may be many.
pub const SAMPLE: Duration = Duration::from_secs(2);
/// How long the system calls of a job may take that does not wait for the pod.
pub const CALLS: Duration = Duration::from_millis(500);
/// How long after its own limit a job is late.
pub const MARGIN: Duration = Duration::from_millis(500);

impl Order {
    /// Encodes the order.
    ///
    /// # Errors
    /// [`InvalidMessage`]: a signal that no recipe may use, or an order that is too long for a message.
    pub fn encode(&self) -> Result<Vec<u8>, InvalidMessage> {
        let message = serde_json::to_vec(self)?;
        match message.len() > LONGEST_MESSAGE {
            true => Err(InvalidMessage::TooLong(message.len())),
            false => Ok(message),
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

impl Reply {
    /// Encodes the reply, as a failure if it is too long for a message: a pod determines the elements
    /// of its table.
    pub fn encode(&self) -> Vec<u8> {
        // Plain data: it cannot fail.
        let message = serde_json::to_vec(self).unwrap_or_default();
        match message.len() > LONGEST_MESSAGE {
            true => serde_json::to_vec(&self.too_long()).unwrap_or_default(),
            false => message,
        }
    }

    /// The reply without content.
    fn too_long(&self) -> Self {
        let why = || "the reply is too long".to_owned();
        match self.clone() {
            Self::Attempted { id, .. } => Self::Attempted {
                id,
                outcome: Outcome::Failed(why()),
            },
            Self::TrafficSampled { id, .. } => Self::TrafficSampled {
                id,
                sample: Err(why()),
            },
            Self::Armed { id, .. } => Self::Armed {
                id,
                result: Err(why()),
            },
            Self::Adopted { id, .. } => Self::Adopted {
                id,
                result: Err(why()),
            },
            Self::Released { sandbox, .. } => Self::Released {
                sandbox,
                result: Err(why()),
            },
            fixed @ (Self::Answered { .. }
            | Self::ProbeSucceeded { .. }
            | Self::Done { .. }
            | Self::Late { .. }
            | Self::Quarantined { .. }
            | Self::Recovered { .. }) => fixed,
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, InvalidMessage> {
    Ok(serde_json::from_slice(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::id::{ContainerId, PodUid},
        hold::ruleset::{HeldPort, Queue},
        recipe::step::{Header, Method},
    };

    fn sandbox() -> SandboxId {
        SandboxId::parse("5a").unwrap()
    }

    fn jobs() -> Vec<Job> {
        let wanted = || Wanted {
            ports: vec![HeldPort {
                port: 15001,
                timeout: Duration::from_millis(1500),
            }],
            dns: Some(Queue::Compat),
            exempt_uids: vec![1337],
            exempt_gids: Vec::new(),
            count_only: false,
        };
        let request = Request {
            method: Method::Post,
            port: 3500,
            path: "/v1.0/shutdown".to_owned(),
            headers: vec![Header {
                name: "dapr-api-token".to_owned(),
                env: "DAPR_API_TOKEN".to_owned(),
            }],
        };
        let probe = Probe::Answers {
            port: 15021,
            path: "/healthz/ready".to_owned(),
        };
        let key = ContainerKey {
            pod: PodUid::parse(&"1".repeat(32)).unwrap(),
            id: ContainerId::parse(&"c0".repeat(32)).unwrap(),
        };
        vec![
            Job::Check,
            Job::Request {
                pid: Pid(7),
                request,
                timeout: Duration::from_secs(2),
                prepared: true,
            },
            Job::Query(VersionRequest {
                port: 15000,
                path: "/server_info".to_owned(),
                pointer: "/node/version".to_owned(),
            }),
            Job::Signal {
                key,
                cgroup: "/sys/fs/cgroup/kubepods/x".into(),
                process: "vault".to_owned(),
                signal: Signal::Term,
            },
            Job::Arm {
                sandbox: sandbox(),
                wanted: wanted(),
            },
            Job::Adopt { sandbox: sandbox() },
            Job::SampleTraffic {
                id: ContainerId::parse(&"1".repeat(64)).unwrap(),
                status_ports: vec![15020],
            },
            Job::Probe {
                sandbox: sandbox(),
                probe,
            },
            Job::ReleasePorts {
                sandbox: sandbox(),
                ports: vec![1, 2],
            },
            Job::ReleaseAll { sandbox: sandbox() },
            Job::Renew {
                sandbox: sandbox(),
                ports: vec![1],
                timeout: Duration::from_secs(20),
            },
            Job::Repair {
                sandbox: sandbox(),
                wanted: wanted(),
            },
            Job::Forget {
                sandbox: sandbox(),
                table: ForgottenTable::LeftoverDeleted,
            },
        ]
    }

    #[test]
    fn an_order_is_decoded_as_it_was_encoded() {
        let netns = NetnsId { dev: 4, ino: 4026 };
        for (number, job) in jobs().into_iter().enumerate() {
            let id = JobId(number as u64);
            let order = Order { id, netns, job };
            let message = order.encode().unwrap();
            assert_eq!(Order::decode(&message).unwrap(), order);
        }
    }

    #[test]
    fn a_reply_is_decoded_as_it_was_encoded() {
        let (id, netns) = (JobId(u64::MAX), NetnsId { dev: 4, ino: 4026 });
        let tally = Tally {
            connections: 3,
            longest: Duration::from_micros(17),
            ..Tally::default()
        };
        let remains = Remains {
            ports: vec![(15001, Duration::from_secs(3))],
            count_only: true,
            queries: false,
        };
        let replies = [
            Reply::Attempted {
                id,
                outcome: Outcome::Rejected(404),
            },
            Reply::Attempted {
                id,
                outcome: Outcome::Failed("no".to_owned()),
            },
            Reply::Answered {
                id,
                version: Some("\"\n".repeat(10)),
            },
            Reply::TrafficSampled {
                id,
                sample: Ok(Sample {
                    bytes: u64::MAX,
                    ..Sample::default()
                }),
            },
            Reply::TrafficSampled {
                id,
                sample: Err("no".to_owned()),
            },
            Reply::Armed {
                id,
                result: Err("no".to_owned()),
            },
            Reply::Adopted {
                id,
                result: Ok(Some(remains)),
            },
            Reply::ProbeSucceeded { id },
            Reply::Done { id },
            Reply::Released {
                sandbox: sandbox(),
                result: Ok(tally),
            },
            Reply::Quarantined {
                netns,
                reason: QuarantineReason::CostlyRules,
            },
            Reply::Late {
                netns,
                is_change: true,
            },
            Reply::Recovered { netns },
        ];
        for reply in replies {
            assert_eq!(Reply::decode(&reply.encode()).unwrap(), reply);
        }
    }

    /// A pod can make the elements of its table as many as it likes.
    #[test]
    fn a_reply_that_is_too_long_is_a_failure() {
        let id = JobId(u64::MAX);
        let remains = Remains {
            ports: vec![(15001, Duration::from_millis(1_234_567)); 5000],
            count_only: false,
            queries: false,
        };
        let long = Reply::Adopted {
            id,
            result: Ok(Some(remains)),
        };
        let failed = Reply::decode(&long.encode()).unwrap();
        assert!(
            matches!(failed, Reply::Adopted { result: Err(_), .. }),
            "{failed:?}"
        );
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in ["", "{}", r#"{"reply":"dance"}"#, r#"{"id":1,"job":{}}"#] {
            assert!(Order::decode(text.as_bytes()).is_err(), "{text}");
            assert!(Reply::decode(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn sigkill_is_not_for_a_named_process() {
        let Some(Job::Signal {
            key,
            cgroup,
            process,
            ..
        }) = jobs().into_iter().nth(3)
        else {
            panic!();
        };
        let job = Job::Signal {
            key,
            cgroup,
            process,
            signal: Signal::Kill,
        };
        let netns = NetnsId { dev: 4, ino: 4026 };
        let id = JobId(1);
        assert!(Order { id, netns, job }.encode().is_err());
    }
}
