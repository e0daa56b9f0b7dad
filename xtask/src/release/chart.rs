//! `cargo xtask chart`: the plain manifests, rendered from the Helm chart, for those who use no Helm.
//!
//! `--check`, which lint runs, writes nothing: it fails where the manifests say something else than the chart, and where the
//! chart is not what it should be: by `helm lint` for every platform, by its own tests, and by its versions.

mod judge;
mod render;

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use usher_cluster::{programs, progress::say};

use crate::workspace::{root, shown};

const CHART: &str = "deploy/chart";
/// What tests, demonstrations and people without Helm apply.
pub(crate) const MANIFEST: &str = "deploy/manifests/usher.yaml";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where a manifest differs from the chart, or the chart is wrong
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        return check();
    }
    let wanted = render::manifest(&programs::helm()?)?;
    if now().ok().as_ref() != Some(&wanted) {
        fs::write(path(), wanted).with_context(|| format!("write {MANIFEST}"))?;
        say(&format!("{}: written", shown(&path())));
    }
    Ok(())
}

pub(crate) fn check() -> Result<()> {
    let helm = programs::helm()?;
    if now()? != render::manifest(&helm)? {
        bail!("{MANIFEST} is not what the chart says; `cargo xtask chart` writes it");
    }
    judge::all(&helm)
}

/// Whether values of an example have keys that the chart knows, and their configuration is one.
pub(crate) fn takes(values: &Value) -> Result<(), String> {
    let schema = judge::schema().map_err(|error| format!("{error:#}"))?;
    judge::keys(values, &schema["properties"], "")
}

fn path() -> PathBuf {
    root().join(MANIFEST)
}

fn now() -> Result<String> {
    fs::read_to_string(path()).with_context(|| format!("read {MANIFEST}"))
}

/// A file of the chart.
fn file(name: &str) -> Result<String> {
    let path = root().join(CHART).join(name);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}
