//! The images of Envoy and of Istio's proxy, which share the layer with Envoy.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{
    ENVOY, ENVOY_UID, ISTIO_PROXY, ISTIO_UID, RECIPE, base, image, iptables, libraries, user,
    with_program,
};
use crate::{
    cache::{self, KeyBuilder},
    image::Layer,
    programs::{Mesh, PilotAgent},
};

/// The minimal configuration of Envoy: its admin port on loopback.
const ENVOY_CONFIG: &str =
    "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}\n";
/// An unsigned token: the agent only has to find one.
const NO_TOKEN: &str = "e30.e30.e30";

pub(super) fn images(mesh: &Mesh) -> Result<Vec<PathBuf>> {
    let libraries = libraries::of(&mesh.envoy)?;
    let key = KeyBuilder::default()
        .input("recipe", RECIPE)
        .input("mesh", include_bytes!("mesh.rs"))
        .input("libraries", include_bytes!("libraries.rs"));
    let key = with_program(key, "envoy", &mesh.envoy);
    let mut key = with_program(key, "pilot-agent", &mesh.pilot_agent.program)
        .input("iptables", include_bytes!("iptables.rs"));
    for library in libraries.iter().chain(&mesh.iptables.programs) {
        key = key.file(library)?;
    }
    let dir = cache::entry("mesh-images", &key.finish(), |dir| {
        let envoy = libraries
            .iter()
            .fold(base(), |layer, library| layer.file(library, library, 0o755));
        let envoy = envoy.file("/usr/local/bin/envoy", &mesh.envoy, 0o755);
        let config = Layer::default().bytes("/etc/envoy/envoy.yaml", ENVOY_CONFIG, 0o644);
        let mut plain = image(
            ENVOY,
            vec![&envoy, &config],
            "/usr/local/bin/envoy",
            &user(ENVOY_UID),
        );
        plain.config.cmd = vec!["-c".into(), "/etc/envoy/envoy.yaml".into()];
        plain.write(&dir.join("envoy.tar"))?;

        let iptables = iptables::layer(&mesh.iptables)?;
        let agent = istio_layer(&mesh.pilot_agent)?;
        let mut proxy = image(
            ISTIO_PROXY,
            vec![&envoy, &iptables, &agent],
            "/usr/local/bin/pilot-agent",
            &user(ISTIO_UID),
        );
        proxy.config.cmd = vec!["proxy".into(), "sidecar".into()];
        proxy.write(&dir.join("istio-proxy.tar"))
    })?;
    Ok(["envoy.tar", "istio-proxy.tar"]
        .map(|name| dir.join(name))
        .to_vec())
}

/// The agent, its template, its writable directories, and a root certificate and token without value, so that it starts
/// with nothing mounted and without a control plane.
fn istio_layer(agent: &PilotAgent) -> Result<Layer> {
    let mut layer = Layer::default()
        .file("/usr/local/bin/pilot-agent", &agent.program, 0o755)
        .file(
            "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json",
            &agent.bootstrap_template,
            0o644,
        )
        .bytes(
            "/var/run/secrets/istio/root-cert.pem",
            throw_away_root()?,
            0o644,
        )
        .bytes("/var/run/secrets/tokens/istio-token", NO_TOKEN, 0o644);
    for writable in ["/etc/istio/pod", "/etc/istio/proxy", "/var/lib/istio/data"] {
        layer = layer.directory(writable, 0o755);
    }
    for secret in [
        "credential-uds",
        "workload-spiffe-credentials",
        "workload-spiffe-uds",
    ] {
        layer = layer.directory(Path::new("/var/run/secrets").join(secret), 0o755);
    }
    let owned = ["/etc/istio", "/var/lib/istio", "/var/run/secrets"];
    Ok(owned.iter().fold(layer, |layer, path| {
        layer.owned_by(path, ISTIO_UID, ISTIO_UID)
    }))
}

fn throw_away_root() -> Result<String> {
    let root = rcgen::generate_simple_self_signed(vec!["usher-test-mesh".to_owned()])
        .context("make a mesh root")?;
    Ok(root.cert.pem())
}
