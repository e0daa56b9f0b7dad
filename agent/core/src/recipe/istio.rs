//! Istio's sidecar: pilot-agent, with Envoy as its child.
//!
//! What each version does (source: `pilot/cmd/pilot-agent/status/server.go` of
//! the release tags; times measured with 1.20.8, 1.24.6 and 1.31-dev):
//!
//! | version | `POST 15020/quitquitquit` | `POST 15000/quitquitquit` |
//! | --- | --- | --- |
//! | 1.0 to 1.2 | does not exist | ends Envoy, the agent lives on |
//! | 1.3 | ends | ends Envoy only |
//! | 1.4 to 1.25 | drains for 5 s, then ends | ends at once |
//! | 1.26 and later | ends at once | ends at once |
//!
//! Every way, SIGTERM included, ends with exit code 0. Both ports take
//! loopback callers only, and POST only.

use super::{Order, SIGTERM, Sidecar};
use crate::{
    annotation, image,
    pod::{Container, Pod},
    step::Step,
};

/// Name that the injector gives the container in every version.
const CONTAINER: &str = "istio-proxy";
/// Last part of the image's path, in every registry.
const IMAGE: &str = "proxyv2";
/// Status port of pilot-agent unless it is set otherwise.
const STATUS_PORT: u16 = 15020;
/// Port of Envoy's admin interface below pilot-agent.
const ADMIN_PORT: u16 = 15000;
const QUIT: &str = "/quitquitquit";

pub(super) fn recognise(pod: &Pod, container: &Container) -> Option<Sidecar> {
    let sidecar_args = container
        .args
        .starts_with(&["proxy".into(), "sidecar".into()]);
    if container.name != CONTAINER || !(image::is(&container.image, IMAGE) || sidecar_args) {
        return None;
    }
    let status = status_port(pod, container).map(|port| Step::Post { port, path: QUIT });
    let admin = Some(Step::Post {
        port: ADMIN_PORT,
        path: QUIT,
    });
    let requests = match image::version(&container.image) {
        Some((1, 0..=2)) => [None, None],
        Some((1, 3)) => [status, None],
        Some((1, 4..=25)) => [admin, status],
        _ => [status, admin],
    };
    let mut ladder: Vec<Step> = requests.into_iter().flatten().collect();
    ladder.push(SIGTERM);
    Some(Sidecar {
        recipe: "istio",
        order: Order::Mesh,
        ladder,
    })
}

/// The status port: the annotation, the old command-line flag, or the
/// default; None where it is switched off.
fn status_port(pod: &Pod, container: &Container) -> Option<u16> {
    let flag = || {
        let mut args = container.args.iter();
        let at = args.position(|arg| arg == "--statusPort")?;
        container.args.get(at + 1)
    };
    let set = pod.annotations.get(annotation::ISTIO_STATUS_PORT);
    match set.or_else(flag).map(|text| text.parse()) {
        Some(Ok(0)) => None,
        Some(Ok(port)) => Some(port),
        Some(Err(_)) | None => Some(STATUS_PORT),
    }
}
