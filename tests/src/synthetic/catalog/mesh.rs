//! A mesh's proxy from the view of apps: all that they send passes through it.
//!
//! The ports, the user and the order of the ports are Istio's (measured,
//! 1.31-dev with Envoy 1.40: 15001 is bound before 15021 answers 200; the proxy
//! runs as user and group 1337).

use super::{Duration, serving};
use crate::synthetic::spec::{ContainerSpec, ISTIO_PROXY};
use crate::synthetic::wire::{Answer, Capture, Effect, Listen, Listener, Place, Route};

/// The readiness port.
pub const READY_PORT: u16 = 15021;
const IMAGE: &str = "registry.example/istio/proxyv2:1.26.2";

/// A proxy that listens, and is ready, at this time.
pub fn proxy(listen: Listen) -> ContainerSpec {
    container(vec![Listener::original(Capture::PORT), ready()], listen)
}

/// A proxy that answers that it is not ready, and has no listener for the app's connections.
pub fn never_ready() -> ContainerSpec {
    let unready = Route::any(Answer::Status(503), Effect::Stay);
    let listener = Listener::new(READY_PORT, vec![unready]).on(Place::Everywhere);
    container(vec![listener], Listen::After(Duration::ZERO))
}

/// The same for a pod with captured DNS queries.
pub fn resolver(listen: Listen) -> ContainerSpec {
    let listeners = vec![
        Listener::original(Capture::PORT),
        Listener::datagram(Capture::DNS),
        ready(),
    ];
    container(listeners, listen).env("ISTIO_META_DNS_CAPTURE", "true")
}

fn container(listeners: Vec<Listener>, listen: Listen) -> ContainerSpec {
    ContainerSpec::sidecar(ISTIO_PROXY, IMAGE, serving(listeners, Duration::ZERO))
        .args(&["proxy", "sidecar"])
        .user(Capture::PROXY)
        .listening(listen)
}

fn ready() -> Listener {
    let ready = Route::at("GET", "/healthz/ready", Answer::Status(200), Effect::Stay);
    Listener::new(READY_PORT, vec![ready]).on(Place::Everywhere)
}
