//! `cargo xtask chart`: the plain manifests, rendered from the Helm chart, for users without Helm.
//!
//! `--check`, which lint runs, writes nothing. It fails if the manifests differ from the chart, or if the chart fails
//! `helm lint` for a platform, its own tests, the comparison of versions, or the types of a version of Kubernetes.

mod check;
mod render;
mod schema;

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};
use usher_cluster::{
    programs,
    progress::{output, say},
};

use crate::{file, workspace::root};

const CHART: &str = "deploy/chart";
pub(crate) const MANIFEST: &str = "deploy/manifests/usher.yaml";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where a manifest differs from the chart, or the chart is invalid
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        return check();
    }
    let wanted = render::manifest(&programs::helm()?)?;
    if file::read(MANIFEST).ok().as_ref() != Some(&wanted) {
        file::write(MANIFEST, wanted)?;
        say(&format!("{MANIFEST}: written"));
    }
    Ok(())
}

/// Renders the chart with more arguments.
fn template(helm: &Path, args: &[&str]) -> Result<String> {
    let mut template = Command::new(helm);
    template.current_dir(root());
    template.args(["template", "usher", CHART, "--namespace", "usher"]);
    output(template.args(args))
}

pub(crate) fn check() -> Result<()> {
    let helm = programs::helm()?;
    ensure!(
        file::read(MANIFEST)? == render::manifest(&helm)?,
        "{MANIFEST} differs from the chart; `cargo xtask chart` writes it"
    );
    check::all(&helm)
}
