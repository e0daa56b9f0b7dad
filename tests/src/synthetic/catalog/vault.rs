//! Vault's agent, as its injector starts it:
//! `/bin/sh -ec "... && vault agent ..."`.
//!
//! Source: vault-k8s `agent-inject/agent/config.go`, `annotations.go`; hashicorp/vault#14223 for
//! the endpoint. Its exit code was not checked; a clean exit is assumed to be 0. The behaviour of
//! shells was tried: busybox's and bash execute the last command, so that PID 1 becomes `vault`;
//! dash stays as PID 1, and without a trap PID 1 ignores SIGTERM.

use std::time::Duration;

use super::{StandIn, serving, silent};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listener, Program, Route, Sidecar};

const QUIT: &str = "/agent/v1/quit";

/// With the endpoint (annotation `vault.hashicorp.com/agent-enable-quit`), on
/// the port of the cache's listener.
pub fn with_the_endpoint() -> StandIn {
    let routes = vec![
        Route::at("POST", QUIT, Answer::Status(200), Effect::QUIT),
        Route::path(QUIT, Answer::Status(405), Effect::Stay),
    ];
    let sidecar = serving(vec![Listener::new(8200, routes)], Duration::ZERO);
    StandIn::from(agent(Program::Sidecar(named(sidecar))))
        .annotation("vault.hashicorp.com/agent-enable-quit", "true")
}

/// Without it there is no listener. PID 1 is `vault`.
pub fn plain() -> StandIn {
    agent(Program::Sidecar(named(silent(Duration::ZERO)))).into()
}

/// PID 1 is a shell that waits for `vault` and ignores SIGTERM.
pub fn below_a_shell() -> StandIn {
    agent(Program::Shell(named(silent(Duration::ZERO)))).into()
}

fn named(sidecar: Sidecar) -> Sidecar {
    Sidecar {
        process: Some("vault".to_owned()),
        ..sidecar
    }
}

fn agent(program: Program) -> ContainerSpec {
    ContainerSpec::new("vault-agent", "hashicorp/vault:1.17.2", program)
        .command(&["/bin/sh", "-ec"])
        .args(&[
            "echo ${VAULT_CONFIG?} | base64 -d > /vault/config.json && vault agent -config=/vault/config.json",
        ])
        .env("VAULT_LOG_LEVEL", "info")
}
