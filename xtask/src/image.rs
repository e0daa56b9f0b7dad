//! `cargo xtask image`: the agent as a static program in an image that has nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use usher_cluster::{image, programs, progress};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The image's name, with host and tag
    #[arg(long, default_value = "usher.test/usher-agent:dev")]
    tag: String,
    /// The package to build; its program has the same name and becomes the entrypoint
    #[arg(long, default_value = "usher-agent")]
    package: String,
    /// Where the archive goes [default: target/image/<package>.tar]
    #[arg(long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let target_dir = target_dir();
    let folder = programs::build_static(&args.package, &["--bin", &args.package], &target_dir)?;
    let archive = args
        .output
        .clone()
        .unwrap_or_else(|| target_dir.join(format!("image/{}.tar", args.package)));
    if let Some(parent) = archive.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    image::write_from_scratch(&args.tag, &[&folder.join(&args.package)], &archive)?;
    let size = fs::metadata(&archive)
        .with_context(|| format!("look at {}", archive.display()))?
        .len();
    progress::say(&format!(
        "{} is in {} ({} KiB)",
        args.tag,
        archive.display(),
        size / 1024
    ));
    Ok(())
}

/// Where cargo builds this workspace.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    )
}
