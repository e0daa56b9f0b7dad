//! `cargo xtask image`: the agent in an image that has nothing else but the CNI plugin, which it puts on the host, and
//! `usher` for people. All are static programs: they run with whatever libraries a host has, or none.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use usher_cluster::{image, programs, progress};

use crate::workspace::{shown, target_dir};

/// The image's name in `deploy/manifests/usher.yaml`.
const AGENT: &str = "usher.test/usher-agent:dev";
/// The programs in `/`, each with its package; the first is the entrypoint.
const PROGRAMS: [(&str, &str); 3] = [
    ("usher-agent", "usher-agent"),
    ("usher", "usher-cli"),
    ("usher-cni", "usher-cni"),
];

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

/// Builds the image that `deploy/manifests/usher.yaml` names, and returns its archive.
pub(crate) fn agent() -> Result<PathBuf> {
    write(AGENT, None)
}

/// Builds the programs as they are in the image: the agent, `usher` and the CNI plugin.
pub(crate) fn programs() -> Result<Vec<PathBuf>> {
    PROGRAMS.map(build).into_iter().collect()
}

fn build((program, package): (&str, &str)) -> Result<PathBuf> {
    let folder = programs::build_static(package, &["--bin", program], &target_dir())?;
    Ok(folder.join(program))
}

fn write(tag: &str, output: Option<PathBuf>) -> Result<PathBuf> {
    let target_dir = target_dir();
    let programs = programs()?;
    let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
    let archive = output.unwrap_or_else(|| target_dir.join("image/usher-agent.tar"));
    if let Some(parent) = archive.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    image::write_from_scratch(tag, &programs, &archive)?;
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
