//! `usher conns`: compared with `ss` in the same namespace, and in a mesh.

mod agree;
mod host;
mod mesh;
mod missing;

use usher_tests::synthetic::spec::ISTIO_PROXY;
use usher_tests::synthetic::wire::{Capture, Holding};
use usher_tests::synthetic::{ContainerSpec, Node, Pod, PodSpec};

/// An address that leads to the mesh, or has no listener.
const FAR: &str = "10.7.7.7:8080";
/// A port that the mesh does not redirect.
const EXCLUDED: &str = "10.7.7.7:9999";
/// Connections to that port get no reply. Without this rule the kernel would end them after three seconds, when no
/// neighbour has replied.
pub(crate) const UNANSWERED: &str = "table inet unanswered {
 chain output {
  type filter hook output priority 0; policy accept;
  tcp dport 9999 drop
 }
}
";

/// A proxy that accepts redirected connections.
fn proxy() -> Holding {
    Holding::default()
        .called("envoy")
        .listening("0.0.0.0:15001")
        .listening("[::]:15020")
}

/// A pod with an app and such a proxy, with captured connections.
fn meshed(node: &Node, name: &str, app: Holding) -> Pod {
    let capture = Capture {
        excluded: vec![9999],
        ..Capture::default()
    };
    let mut spec = PodSpec::new(name)
        .with(ContainerSpec::holding_proxy(proxy()))
        .with(ContainerSpec::holding("app", app).later())
        .captured(capture);
    UNANSWERED.clone_into(&mut spec.filter);
    let pod = node.run(&spec);
    pod.wait_line(ISTIO_PROXY, "holding");
    pod.start("app");
    pod.wait_line("app", "holding");
    pod
}
