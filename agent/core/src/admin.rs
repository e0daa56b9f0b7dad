//! The data types of the admin socket, which the program `usher` displays.
//!
//! Answers of the agent, answers that the program collects without the agent, and answers from a file have the same
//! form, so that the same code prints them. Fields are added, never changed, within one [`API_VERSION`].

mod act;
mod cost;
mod dry_run;
pub mod log_filter;
mod pod;
mod process;
mod status;

use serde::{Deserialize, Serialize};

pub use self::{
    act::{LONGEST_BUSY, OperatorReply, PlannedTable, RequestOptions, WatchLine},
    cost::{CostReport, CountingNode, NamespaceCost},
    dry_run::{
        Acts, Allowed, Forecast, HeldPort, Hold, LadderStep, LeftOut, Linger, Quit, Sidecar, Start,
        Stop,
    },
    pod::{Container, ContainerState, Pod, PodState, Role},
    process::{Log, Metrics, Settings},
    status::{
        Agent, ApiServer, Census, Configuration, Kubelet, Lacks, Modes, Plugin, Problem, Status,
    },
};
use crate::decision::timeline::Entry;

/// Version of these types.
pub const API_VERSION: &str = "usher.dev/cli/v1";

/// An answer and its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<T> {
    pub api_version: String,
    /// The type of the answer, such as `Status`.
    pub kind: String,
    pub from: Origin,
    #[serde(flatten)]
    pub data: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The agent, over its socket.
    Agent,
    /// The command line itself, from the node's kernel.
    Node,
    /// A saved answer.
    File,
}

impl<T> Document<T> {
    pub fn new(kind: &str, from: Origin, data: T) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: kind.to_owned(),
            from,
            data,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pods {
    pub items: Vec<Pod>,
}

/// The decisions about one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    pub items: Vec<Entry>,
}
