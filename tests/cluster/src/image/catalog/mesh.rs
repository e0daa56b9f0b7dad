//! The images of Envoy and of Istio's proxy, which share the layer with Envoy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{
    ENVOY, ENVOY_UID, ISTIO_PROXY, ISTIO_UID, RECIPE, base, image, iptables, user, with_program,
};
use crate::{
    cache::{self, KeyBuilder},
    image::Layer,
    programs::{Mesh, PilotAgent},
    progress::output,
};

/// The minimal configuration of Envoy: its admin port on loopback.
const ENVOY_CONFIG: &str =
    "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}\n";
/// An unsigned token: the agent only has to find one.
const NO_TOKEN: &str = "e30.e30.e30";

pub(super) fn images(mesh: &Mesh) -> Result<Vec<PathBuf>> {
    let libraries = libraries(&mesh.envoy)?;
    let key = KeyBuilder::default()
        .input("recipe", RECIPE)
        .input("mesh", include_bytes!("mesh.rs"));
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

/// The shared libraries and the loader of a program, by `ldd`.
pub(super) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = output(Command::new("ldd").arg(program))?;
    let mut libraries: Vec<PathBuf> = listed_libraries(&listed).map(PathBuf::from).collect();
    libraries.sort();
    libraries.dedup();
    for library in &libraries {
        fs::metadata(library)
            .with_context(|| format!("library {} of {}", library.display(), program.display()))?;
    }
    Ok(libraries)
}

/// The absolute paths in the output of `ldd`: `libm.so.6 => /lib/libm.so.6 (0x…)` and `/lib64/ld.so (0x…)`.
fn listed_libraries(listed: &str) -> impl Iterator<Item = &str> {
    listed
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_absolute_paths() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<&str> = listed_libraries(listed).collect();
        assert_eq!(
            found,
            [
                "/lib/x86_64-linux-gnu/libm.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
    }
}
