//! The images of the test cluster, written into the cache when one of their parts has changed.
//!
//! The names end like those of the published images, because recipes recognize sidecars by them.

mod iptables;
mod libraries;
mod mesh;
mod static_program;

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Image, ImageConfig, Layer};
use crate::{
    cache::{self, KeyBuilder},
    programs::{OwnPrograms, Programs},
};

pub const PAUSE: &str = "usher.test/pause:1";
pub const APP: &str = "usher.test/app:1";
/// The real agent and the real Envoy, laid out as in Istio's own image.
pub const ISTIO_PROXY: &str = "usher.test/istio/proxyv2:1.31.0-distroless";
pub const ISTIO_PILOT: &str = "usher.test/istio/pilot:1.31.0-distroless";
pub const ENVOY: &str = "usher.test/envoyproxy/envoy:v1.40.0";
pub const DAPR: &str = "usher.test/dapr/daprd:1.14.0";
pub const CLOUD_SQL_PROXY: &str = "usher.test/cloud-sql-connectors/cloud-sql-proxy:2.27.0";

/// The user of Istio's proxy; the rules do not redirect its traffic.
pub const ISTIO_UID: u64 = 1337;
const ENVOY_UID: u64 = 101;
const NONROOT_UID: u64 = 65532;

const PASSWD: &str = "root:x:0:0::/:/\nenvoy:x:101:101::/:/\nistio-proxy:x:1337:1337::/:/\n\
                      nonroot:x:65532:65532::/:/\n";
/// This file's part in the keys of the images: a change of it rewrites them.
const RECIPE: &[u8] = include_bytes!("catalog.rs");

/// The archives of all images, in the order of import.
pub fn archives(programs: &Programs) -> Result<Vec<PathBuf>> {
    let mut archives = small_images(&programs.own)?;
    if let Some(mesh) = &programs.mesh {
        archives.extend(mesh::images(mesh)?);
    }
    if let Some(istio) = &programs.istio {
        archives.push(static_program::pilot(istio)?);
    }
    if let Some(helpers) = &programs.helpers {
        archives.extend(static_program::images(helpers)?);
    }
    Ok(archives)
}

fn small_images(own: &OwnPrograms) -> Result<Vec<PathBuf>> {
    let key = KeyBuilder::default()
        .input("recipe", RECIPE)
        .file(&own.pause)?
        .file(&own.app)?;
    let dir = cache::entry("images", &key.finish(), |dir| {
        let pause = Layer::default().file("/pause", &own.pause, 0o755);
        image(PAUSE, vec![&pause], "/pause", "").write(&dir.join("pause.tar"))?;
        // A shell's child has the name by which it was executed.
        let app = base()
            .file("/usher-test-app", &own.app, 0o755)
            .link("/cloud_sql_proxy", "usher-test-app");
        image(APP, vec![&app], "/usher-test-app", "").write(&dir.join("app.tar"))
    })?;
    Ok(["pause.tar", "app.tar"].map(|name| dir.join(name)).to_vec())
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

/// A program's part in the key of its image. Its path in the cache has the key of its contents.
fn with_program(key: KeyBuilder, name: &str, program: &Path) -> KeyBuilder {
    key.input(name, program.as_os_str().as_encoded_bytes())
}
