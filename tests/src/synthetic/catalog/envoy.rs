//! Envoy without an agent of its own, and meshes based on it.
//!
//! Source of the admin interface: `operations/admin.rst` of Envoy's
//! documentation.
//! Measured with 1.40: `POST /quitquitquit` 200 and ended after 10 to 14 ms
//! with 0, `GET` 405, `POST /drain_listeners?graceful` 200 and it runs on,
//! SIGTERM 11 to 20 ms, 0, no drain. No check of the peer: the address
//! that it is bound to protects it.

use std::time::Duration;

use super::{StandIn, seconds, serving, silent};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listener, Route};

const QUIT: &str = "/quitquitquit";

/// Plain Envoy with its admin interface at the documented port.
pub fn plain() -> StandIn {
    let listeners = vec![Listener::new(9901, admin(Effect::QUIT))];
    let sidecar = serving(listeners, Duration::ZERO);
    ContainerSpec::sidecar("envoy", "envoyproxy/envoy:v1.31.0", sidecar)
        .args(&["-c", "/etc/envoy/envoy.yaml"])
        .into()
}

/// Open Service Mesh (`pkg/injector/envoy_container.go`,
/// `pkg/constants/constants.go`): Envoy with its admin interface on 15000.
pub fn osm() -> StandIn {
    let listeners = vec![Listener::new(15_000, admin(Effect::QUIT))];
    let sidecar = serving(listeners, Duration::ZERO);
    ContainerSpec::sidecar("envoy", "envoyproxy/envoy:v1.22.2", sidecar)
        .command(&["envoy"])
        .args(&[
            "--log-level",
            "error",
            "--config-path",
            "/etc/envoy/bootstrap.yaml",
            "--service-cluster",
            "report.default",
        ])
        .into()
}

/// AWS App Mesh (`pkg/inject/sidecar_builder.go` of
/// aws-app-mesh-controller-for-k8s; "Agent for Envoy" in its user guide): PID 1
/// is an agent that may restart Envoy, so Envoy's endpoint answers 200 and
/// the container stays. SIGTERM ends it with 0 after a drain of its listeners
/// (20 s; both not checked).
pub fn app_mesh() -> StandIn {
    let listeners = vec![Listener::new(9901, admin(Effect::Stay))];
    let image = "registry.example/aws-appmesh-envoy:v1.27.2.0-prod";
    ContainerSpec::sidecar("envoy", image, serving(listeners, seconds(20)))
        .env("APPMESH_VIRTUAL_NODE_NAME", "mesh/m/virtualNode/report")
        .into()
}

/// NGINX Service Mesh (`docs/content/about/tech-specs.md` of
/// nginx-service-mesh): no quit endpoint; SIGTERM, 0 (not checked).
pub fn nginx_mesh() -> StandIn {
    let image = "registry.example/nsm/nginx-mesh-sidecar:2.0.0";
    ContainerSpec::sidecar("nginx-mesh-sidecar", image, silent(Duration::ZERO)).into()
}

/// Envoy's admin interface, with this effect of `quit`.
pub(super) fn admin(quit: Effect) -> Vec<Route> {
    vec![
        Route::at("POST", QUIT, Answer::Status(200), quit),
        Route::path(QUIT, Answer::Status(405), Effect::Stay),
        Route::at(
            "POST",
            "/drain_listeners",
            Answer::Status(200),
            Effect::Stay,
        ),
        Route::path("/ready", Answer::Status(200), Effect::Stay),
    ]
}
