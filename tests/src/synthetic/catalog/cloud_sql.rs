//! Cloud SQL Auth Proxy.
//!
//! Source: cloud-sql-proxy `cmd/root.go` and `cmd/errors.go` at 2.25.3, and
//! `cmd/cloud_sql_proxy` at 1.33.16. Measured with 2.27.0:
//! `POST 9091/quitquitquit` with `--quitquitquit` 200 and ended after 4 to 6 ms
//! with 0, `GET` alike; without the flag there is no listener; SIGTERM 143, with
//! `--exit-zero-on-sigterm` 0.

use std::time::Duration;

use super::{SIGINT, SIGTERM, StandIn, silent};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listen, Listener, Reaction, Route, Sidecar};

const IMAGE: &str = "registry.example/cloud-sql-connectors/cloud-sql-proxy:2.25.3";
const INSTANCE: &str = "project:region:db?port=5432";
const QUIT: &str = "/quitquitquit";

/// v2 with its endpoint.
pub fn v2_with_the_endpoint() -> StandIn {
    let sidecar = proxy(vec![admin()], 143);
    container("cloud-sql-proxy", sidecar)
        .args(&["--quitquitquit", INSTANCE])
        .into()
}

/// v2 with its defaults: only SIGTERM, and it exits with 143.
pub fn v2() -> StandIn {
    let sidecar = proxy(Vec::new(), 143);
    container("cloud-sql-proxy", sidecar)
        .args(&[INSTANCE])
        .into()
}

/// v2 that exits with 0 on SIGTERM (2.6.0 and later).
pub fn v2_exit_zero() -> StandIn {
    let sidecar = proxy(Vec::new(), 0);
    container("cloudsql-proxy", sidecar)
        .args(&["--exit-zero-on-sigterm", INSTANCE])
        .into()
}

/// The container that the operator creates (cloud-sql-proxy-operator
/// `internal/workload/podspec_updates.go`, `names.go`): the name begins with
/// `csql-`, and all settings are environment variables.
pub fn operator() -> StandIn {
    container("csql-default-db", proxy(vec![admin()], 0))
        .args(&[INSTANCE])
        .env("CSQL_PROXY_HTTP_PORT", "9801")
        .env("CSQL_PROXY_HEALTH_CHECK", "true")
        .env("CSQL_PROXY_EXIT_ZERO_ON_SIGTERM", "true")
        .env("CSQL_PROXY_QUITQUITQUIT", "true")
        .env("CSQL_PROXY_ADMIN_PORT", "9091")
        .into()
}

/// v2 that listens on its port at this time, without HTTP.
pub fn serving(listen: Listen) -> ContainerSpec {
    container(
        "cloud-sql-proxy",
        proxy(vec![Listener::original(5432)], 143),
    )
    .args(&[INSTANCE])
    .listening(listen)
}

/// v1: no endpoint; SIGTERM ends it with 0 if there is no connection.
pub fn v1() -> StandIn {
    let image = "registry.example/cloudsql-docker/gce-proxy:1.33.16";
    ContainerSpec::sidecar("cloudsql-proxy", image, silent(Duration::ZERO))
        .command(&["/cloud_sql_proxy", "-instances=project:region:db=tcp:5432"])
        .into()
}

/// POST, and since 2.7.0 GET; 400 for other methods.
fn admin() -> Listener {
    let routes = vec![
        Route::at("POST", QUIT, Answer::Status(200), Effect::QUIT),
        Route::at("GET", QUIT, Answer::Status(200), Effect::QUIT),
        Route::path(QUIT, Answer::Status(400), Effect::Stay),
    ];
    Listener::new(9091, routes)
}

fn proxy(listeners: Vec<Listener>, on_term: u8) -> Sidecar {
    let end = |code| Reaction::End {
        after: Duration::ZERO,
        code,
    };
    Sidecar {
        listeners,
        signals: vec![(SIGTERM, end(on_term)), (SIGINT, end(130))],
        ..Sidecar::default()
    }
}

fn container(name: &str, sidecar: Sidecar) -> ContainerSpec {
    ContainerSpec::sidecar(name, IMAGE, sidecar)
}
