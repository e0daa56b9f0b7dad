//! What is told to the users of the cluster, as Events on their pods and on the Node.
//!
//! Few decisions are worth one: [`Trails`] makes them of decisions, [`NodeCondition`] of what concerns
//! the whole node. Each has a [`Reason`], and says what happened and what to do. The [`Queue`] says what
//! is sent to the API server and when; [`object`] has the form that it takes them in
//! (`events.k8s.io/v1`). None of it knows a clock or a socket.

mod condition;
pub mod object;
mod queue;
mod reason;
mod text;
mod trail;

pub use self::{
    condition::NodeCondition,
    queue::{Answer, Next, Order, Queue},
    reason::{Importance, Meaning, On, Reason},
    trail::Trails,
};

/// What an Event's note may take, in bytes: the API server takes no more.
pub const LONGEST_NOTE: usize = 1024;

/// Something that is worth an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub regarding: Regarding,
    /// What it is.
    pub reason: Reason,
    /// The container that it is about, if it is about one.
    pub container: Option<String>,
    /// What happened and what to do: bounded, without control characters.
    pub note: String,
    /// When, in microseconds since 1970-01-01T00:00:00Z.
    pub at_us: u64,
}

/// What an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Regarding {
    /// A pod of the node.
    Pod {
        /// Its UID.
        uid: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The node.
    Node {
        /// Its name.
        name: String,
    },
}

impl Regarding {
    /// What Events about it have in common. The kubelet and `kubectl describe` take a Node's name for its UID.
    pub fn uid(&self) -> &str {
        match self {
            Self::Pod { uid, .. } => uid,
            Self::Node { name } => name,
        }
    }

    /// The namespace that its Events are in.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Pod { namespace, .. } => namespace,
            Self::Node { .. } => "default",
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Pod { name, .. } | Self::Node { name } => name,
        }
    }
}
