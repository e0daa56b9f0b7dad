//! Istio: pilot-agent, with Envoy as its child.
//!
//! Source: `pilot/cmd/pilot-agent/status/server.go` and `pkg/envoy/agent.go`
//! (before 1.6 `pilot/pkg/proxy/agent.go`) of istio/istio at the tags named.
//! Measured: 1.20.8, 1.24.6 and 1.31-dev with Envoy 1.40.
//!
//! In all versions the check of the peer precedes that of the method: a
//! foreign peer gets 403, and `GET` gets 405; every exit has code 0.

use std::time::Duration;

use super::{StandIn, drain, seconds, serving, silent};
use crate::synthetic::spec::{ADMIN_PORT, ContainerSpec, ISTIO_PROXY, STATUS_PORT};
use crate::synthetic::wire::{Answer, Effect, Listener, Place, Route, Sidecar};

const QUIT: &str = "/quitquitquit";
/// `terminationDrainDuration`, the drain after SIGTERM in every version after
/// 1.0 (measured with 1.31-dev: 5014 to 5031 ms).
const DRAIN: Duration = seconds(5);

/// 1.2 (`server.go` 1.2.10): no quit endpoint on 15020, where unknown paths
/// answer 400; Envoy's own endpoint ends Envoy, and the agent runs on
/// without it; SIGTERM drains for 5 s.
pub fn v1_2() -> StandIn {
    let status = vec![Route::any(Answer::Status(400), Effect::Stay)];
    let listeners = vec![
        Listener::new(STATUS_PORT, status).on(Place::Everywhere),
        Listener::new(ADMIN_PORT, admin(Effect::Stay, "1.2.10")),
    ];
    proxy("1.2.10", serving(listeners, DRAIN))
}

/// 1.3 (`pilot/pkg/proxy/agent.go` 1.3.8): 15020 answers 200 and drains for
/// 5 s; 15000 ends Envoy only.
pub fn v1_3() -> StandIn {
    let listeners = vec![
        status(Answer::Status(200), DRAIN),
        Listener::new(ADMIN_PORT, admin(Effect::Stay, "1.3.8")),
    ];
    proxy("1.3.8", serving(listeners, DRAIN))
}

/// 1.20. Measured: it exits 5013 to 5043 ms after `POST 15020`, and
/// 17 to 46 ms after `POST 15000`.
pub fn v1_20() -> StandIn {
    proxy("1.20.8", serving(draining("1.20.8"), DRAIN))
}

/// The same from a registry with tags that name no version; only Envoy's
/// `GET 15000/server_info` reports it (`node.metadata.ISTIO_VERSION`).
pub fn v1_20_by_digest() -> StandIn {
    let mut stand_in = v1_20();
    stand_in.container.image = format!("registry.example/istio/proxyv2@sha256:{}", "1b".repeat(32));
    stand_in
}

/// 1.20 in an IPv6-only pod: Envoy's admin interface is on ::1
/// (`tools/packaging/common/envoy_bootstrap.json`).
pub fn v1_20_ipv6() -> StandIn {
    let mut listeners = draining("1.20.8");
    listeners = listeners
        .into_iter()
        .map(|listener| listener.on(Place::Loopback6))
        .collect();
    proxy("1.20.8", serving(listeners, DRAIN))
}

/// 1.26 (istio/istio#55424): 15020 skips the drain. Measured with 1.31-dev:
/// 9 to 26 ms.
pub fn v1_26() -> StandIn {
    let listeners = vec![
        status(Answer::Status(200), Duration::ZERO),
        Listener::new(ADMIN_PORT, admin(Effect::QUIT, "1.26.2")),
    ];
    proxy("1.26.2", serving(listeners, DRAIN))
}

/// The same with a lost reply. Measured with 1.31-dev: 8 of 210 exited
/// without a byte of reply.
pub fn v1_26_without_a_reply() -> StandIn {
    let listeners = vec![status(Answer::Nothing, Duration::ZERO)];
    proxy("1.26.2", serving(listeners, DRAIN))
}

/// The same during its start: the status port is open before the data of its handler exists, so the handler panics. Only the
/// reply is lost. Seen once with 1.31-dev, 12 ms after the port was opened.
pub fn v1_26_that_panics() -> StandIn {
    let listeners = vec![
        status(Answer::Status(200), Duration::ZERO).losing(1),
        Listener::new(ADMIN_PORT, admin(Effect::QUIT, "1.26.2")),
    ];
    proxy("1.26.2", serving(listeners, DRAIN))
}

/// 1.26 with the status port disabled (annotation
/// `status.sidecar.istio.io/port: "0"`, injection-template.yaml) and no admin
/// port: only SIGTERM is left.
pub fn v1_26_without_ports() -> StandIn {
    proxy("1.26.2", silent(DRAIN)).annotation("status.sidecar.istio.io/port", "0")
}

/// Proxyless gRPC (`grpc-agent.yaml`, env `DISABLE_ENVOY`): the agent alone, so there is a status port and no admin
/// port. From 1.26 on `/quitquitquit` requests the supervisor of Envoy not to drain. There is none, and the handler
/// panics. Seen with 1.31-dev: no reply, it runs on, and exits 17 ms after SIGTERM.
pub fn proxyless() -> StandIn {
    let panics = status(Answer::Status(200), Duration::ZERO).losing(u32::MAX);
    without_envoy("1.26.2", panics)
}

/// The same before 1.26 (`server.go` 1.25): the agent is requested to exit, and has nothing to drain.
pub fn proxyless_v1_25() -> StandIn {
    without_envoy("1.25.3", status(Answer::Status(200), Duration::ZERO))
}

fn without_envoy(version: &str, status: Listener) -> StandIn {
    let mut stand_in = proxy(version, serving(vec![status], Duration::ZERO));
    stand_in.container = stand_in.container.env("DISABLE_ENVOY", "true");
    stand_in
}

fn draining(version: &str) -> Vec<Listener> {
    vec![
        status(Answer::Status(200), DRAIN),
        Listener::new(ADMIN_PORT, admin(Effect::QUIT, version)),
    ]
}

/// The status port, in the agent since 1.3: all interfaces, loopback peers.
fn status(answer: Answer, drains: Duration) -> Listener {
    let quit = Effect::Quit {
        after: drain(drains),
        code: 0,
    };
    let routes = vec![
        Route::at("POST", QUIT, answer, quit).from_loopback(),
        Route::path(QUIT, Answer::Status(405), Effect::Stay).from_loopback(),
        Route::path(QUIT, Answer::Status(403), Effect::Stay),
        Route::at("POST", "/drain", Answer::Status(200), Effect::Stay).from_loopback(),
        Route::path("/healthz/ready", Answer::Status(200), Effect::Stay),
    ];
    Listener::new(STATUS_PORT, routes).on(Place::Everywhere)
}

/// Envoy's admin interface as pilot-agent configures it.
fn admin(quit: Effect, version: &str) -> Vec<Route> {
    let info = format!(r#"{{"node":{{"metadata":{{"ISTIO_VERSION":"{version}"}}}}}}"#);
    let mut routes = super::envoy::admin(quit);
    routes.push(Route::path(
        "/server_info",
        Answer::Json(info),
        Effect::Stay,
    ));
    routes
}

fn proxy(version: &str, sidecar: Sidecar) -> StandIn {
    let image = format!("registry.example/istio/proxyv2:{version}");
    ContainerSpec::sidecar(ISTIO_PROXY, &image, sidecar)
        .args(&[
            "proxy",
            "sidecar",
            "--domain",
            "$(POD_NAMESPACE).svc.cluster.local",
        ])
        .env("ISTIO_META_APP_CONTAINERS", "app")
        .into()
}
