//! Log shippers and collectors: none has a quit endpoint by default.
//! All exit with 0 on SIGTERM when their buffers are flushed (not
//! checked, except for Fluent Bit's grace period of 5 s: fluent/fluent-bit#2715).

use std::time::Duration;

use super::{StandIn, seconds, serving, silent};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{Answer, Effect, Listener, Place, Route};

/// Fluent Bit with its HTTP server, which only has a health check.
pub fn fluent_bit() -> StandIn {
    let health = Route::path("/api/v1/health", Answer::Status(200), Effect::Stay);
    let listeners = vec![Listener::new(2020, vec![health]).on(Place::Everywhere)];
    let image = "registry.example/fluent/fluent-bit:3.1.4";
    ContainerSpec::sidecar("fluent-bit", image, serving(listeners, seconds(5))).into()
}

/// Fluentd; its RPC is disabled by default.
pub fn fluentd() -> StandIn {
    shipper("fluentd", "fluent/fluentd:v1.17-1")
}

pub fn filebeat() -> StandIn {
    shipper("filebeat", "registry.example/beats/filebeat:8.15.0")
}

pub fn vector() -> StandIn {
    shipper("vector", "timberio/vector:0.40.0-distroless-static")
}

/// The OpenTelemetry collector, with the name that its operator gives it.
pub fn otel_collector() -> StandIn {
    shipper(
        "otc-container",
        "otel/opentelemetry-collector-contrib:0.110.0",
    )
}

pub fn promtail() -> StandIn {
    shipper("promtail", "grafana/promtail:3.1.1")
}

fn shipper(name: &str, image: &str) -> StandIn {
    ContainerSpec::sidecar(name, image, silent(Duration::ZERO)).into()
}
