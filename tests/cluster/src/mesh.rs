//! A real Istio in the cluster: its own control plane, injection by its own webhook, and a server to connect to.
//!
//! [`crate::Cluster::up`] installs it if [`crate::programs::Sidecars`] requests it, from Istio's own charts.
//! `programs/istio/manifest/operator.yaml` has the differences from a default install, with reasons. [`run_job`] starts
//! a Job in the mesh and follows it, [`complete_jobs`] measures the time to completion; [`ControlPlane`] delays the
//! readiness of its proxy.

mod completion;
mod control_plane;
mod controller;
mod follow;
mod outage;
mod run;
mod unbound;
mod variant;

use std::time::Duration;

pub use self::{
    completion::complete_jobs,
    control_plane::{ControlPlane, Paused},
    controller::BY_CONTROLLER,
    run::{Outcome, run_job, run_jobs},
    unbound::{bind, unbind},
    variant::{InitCase, Proxy, Variant},
};
pub use crate::cluster::istio::{ECHO, NAMESPACE, PEER};

/// The readiness endpoint of a proxy, from inside its pod.
pub const READY: &str = "127.0.0.1:15021/healthz/ready";
/// The quit endpoint of a proxy, from inside its pod.
pub const QUIT: &str = "127.0.0.1:15020/quitquitquit";

const LIMIT: Duration = Duration::from_secs(120);
