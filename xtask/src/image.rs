//! `cargo xtask image`: the agent in an image that has nothing else but the CNI plugin, which it puts on the host. Both
//! are static programs: the plugin runs with whatever libraries a host has, or none.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use usher_cluster::{image, programs, progress};

use crate::workspace::{shown, target_dir};

/// The image's name in `deploy/usher.yaml`.
const AGENT: &str = "usher.test/usher-agent:dev";
/// The packages, each with a program of its name that is in `/`; the first is the entrypoint.
const PROGRAMS: [&str; 2] = ["usher-agent", "usher-cni"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The image's name, with host and tag
    #[arg(long, default_value = AGENT)]
    tag: String,
    /// Where the archive goes [default: target/image/usher-agent.tar]
    #[arg(long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    write(&args.tag, args.output.clone()).map(drop)
}

/// Builds the image that `deploy/usher.yaml` names, and returns its archive.
pub(crate) fn agent() -> Result<PathBuf> {
    write(AGENT, None)
}

/// Builds the CNI plugin as it is in the image.
pub(crate) fn plugin() -> Result<PathBuf> {
    build(PROGRAMS[1])
}

fn build(package: &str) -> Result<PathBuf> {
    let folder = programs::build_static(package, &["--bin", package], &target_dir())?;
    Ok(folder.join(package))
}

fn write(tag: &str, output: Option<PathBuf>) -> Result<PathBuf> {
    let target_dir = target_dir();
    let [agent, plugin] = PROGRAMS.map(build);
    let (agent, plugin) = (agent?, plugin?);
    let archive = output.unwrap_or_else(|| target_dir.join("image/usher-agent.tar"));
    if let Some(parent) = archive.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    image::write_from_scratch(tag, &[&agent, &plugin], &archive)?;
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
