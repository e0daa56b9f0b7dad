//! Kubernetes Events on pods and on the Node.
//!
//! [`EventRecorder`] turns decisions into Events, [`NodeCondition`] does so for conditions of the whole
//! node. Most decisions are not worth an Event. Each Event has a [`Reason`], and its note has what
//! happened and what to do. [`Queue`] decides which requests the API server receives and when; [`object`]
//! encodes it as `events.k8s.io/v1`. This module has no clock and no socket.

mod condition;
pub mod object;
mod queue;
mod reason;
mod recorder;
mod text;

pub use self::{
    condition::NodeCondition,
    queue::{ApiRequest, ApiResult, Next, Queue},
    reason::{EventType, Fields, Meaning, Reason, Target},
    recorder::EventRecorder,
};

/// Longest note of an Event that the API server accepts, in bytes.
pub const LONGEST_NOTE: usize = 1024;

/// The content of an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub regarding: Regarding,
    pub reason: Reason,
    pub container: Option<String>,
    /// At most [`LONGEST_NOTE`] bytes, without control characters.
    pub note: String,
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub at_us: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Regarding {
    Pod {
        uid: String,
        namespace: String,
        name: String,
    },
    Node {
        name: String,
    },
}

impl Regarding {
    /// The UID for `regarding`. For a Node it is the name, as the kubelet and `kubectl describe` have it.
    pub fn uid(&self) -> &str {
        match self {
            Self::Pod { uid, .. } => uid,
            Self::Node { name } => name,
        }
    }

    pub fn namespace(&self) -> &str {
        match self {
            Self::Pod { namespace, .. } => namespace,
            Self::Node { .. } => "default",
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Pod { name, .. } | Self::Node { name } => name,
        }
    }
}
