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

use serde_json::Value;

pub use self::{
    completion::complete_jobs,
    control_plane::{ControlPlane, Paused},
    controller::BY_CONTROLLER,
    run::{Outcome, run_job, run_jobs},
    unbound::{bind, unbind},
    variant::{InitCase, Proxy, Variant},
};
pub use crate::cluster::istio::{ECHO, NAMESPACE, PEER};
use crate::workload::app_container;

/// The readiness endpoint of a proxy, from inside its pod.
pub const READY: &str = "127.0.0.1:15021/healthz/ready";
/// The quit endpoint of a proxy, from inside its pod.
pub const QUIT: &str = "127.0.0.1:15020/quitquitquit";

const LIMIT: Duration = Duration::from_secs(180);

/// The container `app`, which serves at this port, reaches the mesh once, works on for some time after its stop signal, and
/// calls a service in the mesh ten times a second in that time.
#[must_use]
pub fn calling_app(port: u16, work: Duration) -> Value {
    let (port, delay) = (port.to_string(), format!("{}ms", work.as_millis()));
    app_container(
        "app",
        &[
            "--serve",
            &port,
            "--get",
            PEER,
            "--retry-for",
            "60s",
            "--call-after-term",
            PEER,
            "--term-delay",
            &delay,
            "--term-code",
            "0",
        ],
    )
}
