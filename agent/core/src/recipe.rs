//! Which containers are sidecars, and how each kind is asked to quit.
//!
//! Recognition is conservative: what no recipe recognises is an app container,
//! and while an app container runs nothing is done.

mod envoy;
mod istio;

use crate::{
    pod::{Container, Pod},
    step::{Signal, Step},
};

/// When a sidecar quits, relative to the others of its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// After everything that may still need the network.
    Mesh,
}

/// A recognised sidecar and the ways to make it quit, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Name of the recipe that recognised it.
    pub recipe: &'static str,
    /// Its place among the sidecars of the pod.
    pub order: Order,
    /// What to try; never empty.
    pub ladder: Vec<Step>,
}

const SIGTERM: Step = Step::Signal(Signal::Term);

/// The recipe for this container of this pod, if one recognises it.
pub fn recognise(pod: &Pod, container: &Container) -> Option<Sidecar> {
    let mut sidecar = istio::recognise(pod, container).or_else(|| envoy::recognise(container))?;
    if pod.host_network {
        // Loopback there is the node's, and whoever listens on it may be
        // anybody.
        sidecar
            .ladder
            .retain(|step| matches!(step, Step::Signal(_)));
    }
    Some(sidecar)
}

#[cfg(test)]
mod tests;
