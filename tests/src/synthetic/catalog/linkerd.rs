//! Linkerd's proxy.
//!
//! Source: linkerd2-proxy `linkerd/app/admin/src/server.rs` (peer check 403,
//! then method check 405) and `linkerd/app/src/env.rs`; linkerd2 `values.yaml`
//! at 2.15 to 2.20. Measured with 2.357.0: `POST /shutdown` by default 404,
//! enabled 200, `GET` 405, from the host 403; with a grace period of 3 s it
//! exits after 3004 to 3008 ms, on SIGTERM after 3002 to 3004 ms, always with 0. The
//! default grace period is 120 s.

use std::time::Duration;

use super::{StandIn, drain, seconds, serving};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listener, Place, Route};

const PORT: u16 = 4191;
const SHUTDOWN: &str = "/shutdown";
/// `LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD` of the measurement.
const GRACE: Duration = seconds(3);

/// With the endpoint: always in 2.10 to 2.15, later with
/// `config.linkerd.io/proxy-admin-shutdown: enabled`.
pub fn enabled() -> StandIn {
    let quit = Effect::Quit {
        after: drain(GRACE),
        code: 0,
    };
    let routes = vec![
        Route::at("POST", SHUTDOWN, Answer::Status(200), quit).from_loopback(),
        Route::path(SHUTDOWN, Answer::Status(405), Effect::Stay).from_loopback(),
        Route::path(SHUTDOWN, Answer::Status(403), Effect::Stay),
    ];
    proxy(routes).annotation("config.linkerd.io/proxy-admin-shutdown", "enabled")
}

/// Without it, the default from 2.16: 404.
pub fn disabled() -> StandIn {
    proxy(vec![Route::path(
        SHUTDOWN,
        Answer::Status(404),
        Effect::Stay,
    )])
}

/// With the endpoint and a default inbound policy such as `cluster-unauthenticated`,
/// which treats 127.0.0.1 as a foreign peer: 403 (linkerd/linkerd2#9812; there is
/// no exception for loopback in `linkerd/app/admin/src/stack.rs`).
pub fn closed_by_policy() -> StandIn {
    let stranger = Route::any(Answer::Status(403), Effect::Stay);
    proxy(vec![stranger]).annotation("config.linkerd.io/proxy-admin-shutdown", "enabled")
}

fn proxy(mut routes: Vec<Route>) -> StandIn {
    routes.push(Route::path("/live", Answer::Status(200), Effect::Stay));
    routes.push(Route::path("/ready", Answer::Status(200), Effect::Stay));
    let listeners = vec![Listener::new(PORT, routes).on(Place::Everywhere)];
    let image = "registry.example/linkerd/proxy:edge-25.8.1";
    ContainerSpec::sidecar("linkerd-proxy", image, serving(listeners, GRACE))
        .env("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "3s")
        .env("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "0.0.0.0:4191")
        .into()
}
