//! Stand-ins for the kinds of sidecars, one function each.
//!
//! A stand-in has the names, images (in a reserved registry), arguments and
//! variables that identify the kind, and does what the kind was measured or
//! read to do: ports, status codes, permitted callers, drain time, exit
//! code. Each function names its source. "Measured" means
//! a manual run of the real program with its responses and its exit recorded. A file
//! is one of the kind's published source at that version. "Not checked" is
//! documented by others and was neither run nor read.
//!
//! No test should wait for a drain, so all of them take a tenth of
//! their time ([`drain`]). The settings that contain these times are realistic.

pub mod cloud_sql;
pub mod consul;
pub mod dapr;
pub mod envoy;
pub mod istio;
pub mod kuma;
pub mod linkerd;
pub mod logs;
pub mod mesh;
pub mod vault;

use std::time::Duration;

use crate::synthetic::spec::{ContainerSpec, PodSpec};
use crate::synthetic::wire::{Listener, Reaction, Sidecar};

const SIGTERM: i32 = 15;
const SIGINT: i32 = 2;

/// A sidecar's container, and the annotations that its injector adds to the pod.
#[derive(Debug, Clone)]
pub struct StandIn {
    pub container: ContainerSpec,
    /// The pod's annotations about it.
    pub annotations: Vec<(&'static str, &'static str)>,
}

impl StandIn {
    /// A pod of a Job with this sidecar and one app, called `app`.
    pub fn job(self, name: &str) -> PodSpec {
        let mut spec = PodSpec::beside_app(name, self.container);
        for (key, value) in self.annotations {
            spec = spec.annotation(key, value);
        }
        spec
    }

    #[must_use]
    pub fn annotation(mut self, key: &'static str, value: &'static str) -> Self {
        self.annotations.push((key, value));
        self
    }
}

impl From<ContainerSpec> for StandIn {
    fn from(container: ContainerSpec) -> Self {
        Self {
            container,
            annotations: Vec::new(),
        }
    }
}

/// The stand-in's duration for this real duration.
pub fn drain(real: Duration) -> Duration {
    real / 10
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A sidecar with these ports that exits with 0 on SIGTERM, after a drain.
fn serving(listeners: Vec<Listener>, drains: Duration) -> Sidecar {
    let end = Reaction::End {
        after: drain(drains),
        code: 0,
    };
    Sidecar {
        listeners,
        signals: vec![(SIGTERM, end), (SIGINT, end)],
        ..Sidecar::default()
    }
}

/// A sidecar without ports.
fn silent(drains: Duration) -> Sidecar {
    serving(Vec::new(), drains)
}
