//! The images of the test cluster, written into the cache when one of their parts changed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{Image, ImageConfig, Layer};
use crate::{
    cache::{self, KeyBuilder},
    programs::{OwnPrograms, Programs, Sidecars},
    progress::output,
};

pub const PAUSE: &str = "usher.test/pause:1";
pub const APP: &str = "usher.test/app:1";
/// The real agent and the real Envoy, laid out as in Istio's own image.
pub const ISTIO_PROXY: &str = "usher.test/istio/proxyv2:1.31.0-distroless";
pub const ENVOY: &str = "usher.test/envoyproxy/envoy:v1.40.0";

/// The user of Istio's proxy, whose traffic its rules do not redirect.
pub const ISTIO_UID: u64 = 1337;
const ENVOY_UID: u64 = 101;

/// What Envoy needs to run and to be asked to end: its admin port on loopback, nothing else.
const ENVOY_CONFIG: &str =
    "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}\n";
const PASSWD: &str = "root:x:0:0::/:/\nenvoy:x:101:101::/:/\nistio-proxy:x:1337:1337::/:/\n";
/// A token that nobody signed: the agent only has to find one.
const NO_TOKEN: &str = "e30.e30.e30";

/// The archives of all images, in the order of import.
pub fn archives(programs: &Programs) -> Result<Vec<PathBuf>> {
    let mut archives = small_images(&programs.own)?;
    if let Some(sidecars) = &programs.sidecars {
        archives.extend(sidecar_images(sidecars)?);
    }
    Ok(archives)
}

fn small_images(own: &OwnPrograms) -> Result<Vec<PathBuf>> {
    let key = KeyBuilder::default()
        .input("recipe", include_bytes!("catalog.rs"))
        .file(&own.pause)?
        .file(&own.app)?;
    let dir = cache::entry("images", &key.finish(), |dir| {
        let pause = Layer::default().file("/pause", &own.pause, 0o755);
        image(PAUSE, vec![&pause], "/pause", "").write(&dir.join("pause.tar"))?;
        let app = base().file("/usher-test-app", &own.app, 0o755);
        image(APP, vec![&app], "/usher-test-app", "").write(&dir.join("app.tar"))
    })?;
    Ok(["pause.tar", "app.tar"].map(|name| dir.join(name)).to_vec())
}

fn sidecar_images(sidecars: &Sidecars) -> Result<Vec<PathBuf>> {
    let libraries = libraries(&sidecars.envoy)?;
    let mut key = KeyBuilder::default()
        .input("recipe", include_bytes!("catalog.rs"))
        // Their paths in the cache have the keys of their contents.
        .input("envoy", sidecars.envoy.as_os_str().as_encoded_bytes())
        .input(
            "pilot-agent",
            sidecars.pilot_agent.program.as_os_str().as_encoded_bytes(),
        );
    for library in &libraries {
        key = key.file(library)?;
    }
    let dir = cache::entry("sidecar-images", &key.finish(), |dir| {
        let envoy = libraries
            .iter()
            .fold(base(), |layer, library| layer.file(library, library, 0o755));
        let envoy = envoy.file("/usr/local/bin/envoy", &sidecars.envoy, 0o755);
        let config = Layer::default().bytes("/etc/envoy/envoy.yaml", ENVOY_CONFIG, 0o644);
        let mut plain = image(
            ENVOY,
            vec![&envoy, &config],
            "/usr/local/bin/envoy",
            &user(ENVOY_UID),
        );
        plain.config.cmd = vec!["-c".into(), "/etc/envoy/envoy.yaml".into()];
        plain.write(&dir.join("envoy.tar"))?;

        let agent = istio_layer(sidecars)?;
        let mut proxy = image(
            ISTIO_PROXY,
            vec![&envoy, &agent],
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

/// The agent, its template, the directories it writes to, and a root and token of no value so that it starts
/// with nothing mounted and without a control plane.
fn istio_layer(sidecars: &Sidecars) -> Result<Layer> {
    let agent = &sidecars.pilot_agent;
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

/// The directories that programs expect.
fn base() -> Layer {
    Layer::default()
        .bytes("/etc/passwd", PASSWD, 0o644)
        .directory("/tmp", 0o1777)
}

fn image<'a>(name: &'a str, layers: Vec<&'a Layer>, entrypoint: &str, user: &str) -> Image<'a> {
    let config = ImageConfig {
        entrypoint: vec![entrypoint.into()],
        user: user.into(),
        ..ImageConfig::default()
    };
    Image {
        name,
        layers,
        config,
    }
}

fn user(uid: u64) -> String {
    format!("{uid}:{uid}")
}

/// The shared libraries and the loader of a program, by `ldd`.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
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

/// The absolute paths in what `ldd` prints: `libm.so.6 => /lib/libm.so.6 (0x…)` and `/lib64/ld.so (0x…)`.
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
