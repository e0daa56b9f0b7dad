//! `cargo xtask image`: the agent as a static program in an image that has nothing else.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use usher_cluster::{image, programs, progress};

use crate::workspace::{shown, target_dir};

/// The image's name in `deploy/usher.yaml`.
const AGENT: &str = "usher.test/usher-agent:dev";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The image's name, with host and tag
    #[arg(long, default_value = AGENT)]
    tag: String,
    /// The package to build; its program has the same name and becomes the entrypoint
    #[arg(long, default_value = "usher-agent")]
    package: String,
    /// Where the archive goes [default: target/image/PACKAGE.tar]
    #[arg(long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    write(&args.tag, &args.package, args.output.clone()).map(drop)
}

/// Builds the image that `deploy/usher.yaml` names, and returns its archive.
pub(crate) fn agent() -> Result<PathBuf> {
    write(AGENT, "usher-agent", None)
}

fn write(tag: &str, package: &str, output: Option<PathBuf>) -> Result<PathBuf> {
    let target_dir = target_dir();
    let folder = programs::build_static(package, &["--bin", package], &target_dir)?;
    let archive = output.unwrap_or_else(|| target_dir.join(format!("image/{package}.tar")));
    if let Some(parent) = archive.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    image::write_from_scratch(tag, &[&folder.join(package)], &archive)?;
    let size = fs::metadata(&archive)
        .with_context(|| format!("look at {}", archive.display()))?
        .len();
    progress::say(&format!(
        "{tag} is in {} ({} KiB)",
        shown(&archive),
        size / 1024
    ));
    Ok(archive)
}
