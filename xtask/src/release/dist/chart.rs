//! The chart, packed by helm, and packed again without the time at which helm did.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use usher_cluster::{
    image::{self, Layer},
    programs,
};

use super::VERSION;
use crate::workspace::{root, run, target_dir};

const CHART: &str = "deploy/chart";

/// Puts `usher-VERSION.tgz` beside the rest.
pub(super) fn package(dist: &Path) -> Result<()> {
    let chart = root().join(CHART);
    let helm = programs::helm()?;
    let folder = target_dir().join("dist-chart");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let mut package = std::process::Command::new(helm);
    package
        .args(["package", "--app-version", VERSION, "--version", VERSION])
        .arg("--destination")
        .arg(&folder)
        .arg(&chart);
    run(&mut package)?;
    let name = format!("usher-{VERSION}.tgz");
    let plain = folder.join("chart.tar");
    Layer::of_tar_gz(&folder.join(&name))?.write(&plain)?;
    image::gzip(&plain, &dist.join(name))
}
