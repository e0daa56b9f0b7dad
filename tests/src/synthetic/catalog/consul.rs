//! Consul: its dataplane since consul-k8s 1.0, Envoy alone before.

use std::time::Duration;

use super::{SIGTERM, StandIn, drain, seconds, serving};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listener, Reaction, Route, Sidecar};

/// The default of consul-k8s; that of the binary is 0.
const GRACE: Duration = seconds(30);

/// consul-dataplane from 1.3 on (`pkg/consuldp/lifecycle.go`; consul-k8s
/// `connect-inject/webhook/consul_dataplane_sidecar.go`): any method on
/// 20600/graceful_shutdown, bound to loopback, no check of the peer. It always
/// waits its whole grace period, then exits with 0. SIGTERM does the same.
pub fn dataplane() -> StandIn {
    let quit = Effect::Quit {
        after: drain(GRACE),
        code: 0,
    };
    let sidecar = serving(lifecycle(quit), GRACE);
    dataplane_of("1.5.0", sidecar)
}

/// 1.0 to 1.2: any exit of Envoy is reported as an error, so a clean exit has
/// code 1; SIGTERM cancels at once, 0.
pub fn dataplane_1_2() -> StandIn {
    let quit = Effect::Quit {
        after: drain(GRACE),
        code: 1,
    };
    let sidecar = Sidecar {
        signals: vec![(SIGTERM, Reaction::END)],
        ..serving(lifecycle(quit), GRACE)
    };
    dataplane_of("1.2.0", sidecar)
}

/// consul-k8s below 1.0 (v0.49.8 `endpoints_controller.go`): Envoy, admin
/// interface on 19000 (the port was not checked).
pub fn envoy() -> StandIn {
    let listeners = vec![Listener::new(19_000, super::envoy::admin(Effect::QUIT))];
    let sidecar = serving(listeners, Duration::ZERO);
    ContainerSpec::sidecar("envoy-sidecar", "envoyproxy/envoy:v1.22.5", sidecar)
        .command(&[
            "envoy",
            "--config-path",
            "/consul/connect-inject/envoy-bootstrap.yaml",
        ])
        .into()
}

fn lifecycle(quit: Effect) -> Vec<Listener> {
    let routes = vec![
        Route::path("/graceful_shutdown", Answer::Status(200), quit),
        Route::path("/graceful_startup", Answer::Status(200), Effect::Stay),
    ];
    vec![Listener::new(20_600, routes)]
}

fn dataplane_of(version: &str, sidecar: Sidecar) -> StandIn {
    let image = format!("hashicorp/consul-dataplane:{version}");
    ContainerSpec::sidecar("consul-dataplane", &image, sidecar)
        .args(&[
            "-addresses",
            "consul-server.consul.svc",
            "-envoy-admin-bind-port=19000",
            "-graceful-port=20600",
            "-shutdown-drain-listeners",
            "-shutdown-grace-period-seconds=30",
        ])
        .into()
}
