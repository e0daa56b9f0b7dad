//! Stand-ins for the kinds of sidecars, one function each.
//!
//! A stand-in has the names, images (in a registry of nobody's), arguments and
//! variables by which the kind is known, and does what the kind was measured or
//! read to do: ports, status codes, who may ask, how long it drains, which code
//! it ends with. Where it comes from is with each function. "Measured" means
//! the real program, run by hand with its answers and its end recorded; a file
//! is one of the kind's published source at that version; "not checked" is what
//! is said of it and was neither run nor read.
//!
//! Nobody has to wait for a drain in a test, so all of them take a tenth of
//! their time ([`drain`]); settings that tell them are as in reality.

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

/// A sidecar's container, and what its injector leaves on the pod.
#[derive(Debug, Clone)]
pub struct StandIn {
    /// Its container.
    pub container: ContainerSpec,
    /// The pod's annotations that are about it.
    pub annotations: Vec<(&'static str, &'static str)>,
}

impl StandIn {
    /// A pod of a Job with one app, called `app`, and this.
    pub fn job(self, name: &str) -> PodSpec {
        let mut spec = PodSpec::beside_app(name, self.container);
        for (key, value) in self.annotations {
            spec = spec.annotation(key, value);
        }
        spec
    }

    /// Its pod has this annotation.
    #[must_use]
    fn annotation(mut self, key: &'static str, value: &'static str) -> Self {
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

/// The time that a stand-in takes where the real one takes this long.
pub fn drain(real: Duration) -> Duration {
    real / 10
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A sidecar with these ports that ends with 0 on SIGTERM, after a drain.
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

/// One without ports.
fn silent(drains: Duration) -> Sidecar {
    serving(Vec::new(), drains)
}
