//! Envoy without an agent: the admin interface's `POST /quitquitquit` ends it
//! at once with exit code 0, and so does SIGTERM
//! ([admin interface](https://www.envoyproxy.io/docs/envoy/latest/operations/admin)).
//!
//! The admin port is the author's choice; 9901 is what Envoy's documentation
//! and examples use.

use super::{Order, SIGTERM, Sidecar};
use crate::{image, pod::Container, step::Step};

/// Images of the Envoy project; the architecture- and feature-specific ones
/// have a suffix.
const IMAGES: [&str; 4] = [
    "envoyproxy/envoy",
    "envoyproxy/envoy-distroless",
    "envoyproxy/envoy-contrib",
    "envoyproxy/envoy-alpine",
];
const ADMIN_PORT: u16 = 9901;

pub(super) fn recognise(container: &Container) -> Option<Sidecar> {
    if !IMAGES.iter().any(|path| image::is(&container.image, path)) {
        return None;
    }
    let request = Step::Post {
        port: ADMIN_PORT,
        path: "/quitquitquit",
    };
    Some(Sidecar {
        recipe: "envoy",
        order: Order::Mesh,
        ladder: vec![request, SIGTERM],
    })
}
