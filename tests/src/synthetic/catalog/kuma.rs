//! Kuma: kuma-dp (PID 1) with Envoy.
//!
//! Source: `pkg/config/app/kuma-cp/kuma-cp.defaults.yaml` at 2.13 and 2.14,
//! `app/kuma-dp/pkg/dataplane/readiness/component.go`. SIGTERM fails the health
//! checks, then waits the whole drain time, 30 s, and exits with 0.

use std::time::Duration;

use super::{StandIn, seconds, serving};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listener, Place, Route};

const DRAIN: Duration = seconds(30);

/// Up to 2.13: Envoy's admin interface on 9901; when Envoy exits, kuma-dp exits with 0.
pub fn v2_13() -> StandIn {
    let admin = Listener::new(9901, super::envoy::admin(Effect::QUIT));
    kuma_dp("2.13.1", vec![readiness(), admin])
}

/// From 2.14 the admin interface is a Unix socket (`envoyAdminUnixSocket`), and
/// there is no listener on TCP loopback: SIGTERM.
pub fn v2_14() -> StandIn {
    kuma_dp("2.14.3", vec![readiness()])
}

fn readiness() -> Listener {
    let ready = Route::path("/ready", Answer::Status(200), Effect::Stay);
    Listener::new(9902, vec![ready]).on(Place::Everywhere)
}

fn kuma_dp(version: &str, listeners: Vec<Listener>) -> StandIn {
    let image = format!("registry.example/kumahq/kuma-dp:{version}");
    ContainerSpec::sidecar("kuma-sidecar", &image, serving(listeners, DRAIN))
        .args(&["run", "--log-level=info", "--concurrency=2"])
        .env("KUMA_DATAPLANE_DRAIN_TIME", "30s")
        .into()
}
