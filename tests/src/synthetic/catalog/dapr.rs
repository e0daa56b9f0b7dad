//! Source: dapr/dapr `pkg/api/http/shutdown.go`, `pkg/api/http/server.go` and
//! `pkg/injector/patcher/sidecar.go` at 1.18. Measured with 1.14:
//! `POST 3500/v1.0/shutdown` 204 and ended after 5 to 12 ms, `GET` 404, SIGTERM
//! when idle 7 ms, always 0.

use std::time::Duration;

use super::{StandIn, serving};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listen, Listener, Route};

const PORT: u16 = 3500;
const SHUTDOWN: &str = "/v1.0/shutdown";
/// An arbitrary token.
const TOKEN: &str = "synthetic-api-token";

/// Without a token.
pub fn open() -> StandIn {
    let shutdown = Route::at("POST", SHUTDOWN, Answer::Status(204), Effect::QUIT);
    daprd(vec![shutdown]).into()
}

/// With a token (annotation `dapr.io/api-token-secret`): 401 unless the header
/// `dapr-api-token` has it. The pod's spec refers to a Secret; the value is in
/// the environment of the process.
pub fn with_a_token() -> StandIn {
    let shutdown = Route::at("POST", SHUTDOWN, Answer::Status(204), Effect::QUIT)
        .with_header("dapr-api-token", TOKEN);
    let stranger = Route::any(Answer::Status(401), Effect::Stay);
    StandIn::from(daprd(vec![shutdown, stranger]).secret_env("DAPR_API_TOKEN", TOKEN))
        .annotation("dapr.io/api-token-secret", "tokens")
}

/// With an API allow list that excludes the endpoint: 404, so only SIGTERM is left.
pub fn hidden() -> StandIn {
    daprd(Vec::new()).into()
}

/// A sidecar that listens on both of its ports at this time.
pub fn starting(listen: Listen) -> ContainerSpec {
    let grpc = Listener::original(50001);
    daprd(Vec::new()).listener(grpc).listening(listen)
}

fn daprd(mut routes: Vec<Route>) -> ContainerSpec {
    let health = Route::path("/v1.0/healthz", Answer::Status(204), Effect::Stay);
    routes.insert(0, health);
    let sidecar = serving(vec![Listener::new(PORT, routes)], Duration::ZERO);
    ContainerSpec::sidecar("daprd", "registry.example/dapr/daprd:1.14.0", sidecar).args(&[
        "/daprd",
        "--dapr-http-port",
        "3500",
        "--dapr-grpc-port",
        "50001",
        "--dapr-listen-addresses",
        "[::1],127.0.0.1",
        "--app-id",
        "report",
    ])
}
