//! `cargo xtask fuzz`: passes invalid bytes to every decoder of external input.
//!
//! The targets are in `tests/fuzz`, with a corpus that ordinary tests decode as well. New inputs of a run are kept in
//! `target/fuzz/corpus`, where the next run starts. A crash or a hang is an error; its input is in `target/fuzz/crashes`.

mod build;
mod session;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail, ensure};
use usher_cluster::progress::say;
use usher_core::base::duration;

use self::session::Session;
use crate::{file, workspace::target_dir};

pub(super) use build::has_compiler;

/// Fuzzing time in a pipeline.
const PIPELINE: Duration = Duration::from_secs(10 * 60);
/// A pipeline has the same seed every time, so that it judges the change and not the seed.
const PIPELINE_SEED: u32 = 1;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Time for all targets, without the build; each target has its share
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = duration::parse)]
    length: Duration,
    /// Targets to run [default: all]
    #[arg(long = "target", value_name = "NAME", num_args = 1..)]
    targets: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let all = session::targets()?;
    if let Some(unknown) = args.targets.iter().find(|name| !all.contains(name)) {
        bail!("unknown target {unknown}; valid: {}", all.join(", "));
    }
    let targets = match &args.targets[..] {
        [] => &all,
        targets => targets,
    };
    fuzz(None, targets, args.length)
}

pub(super) fn in_pipeline() -> Result<()> {
    fuzz(Some(PIPELINE_SEED), &session::targets()?, PIPELINE)
}

pub(super) fn build() -> Result<()> {
    build::program(&folder()?).map(drop)
}

fn folder() -> Result<PathBuf> {
    let folder = target_dir().join("fuzz");
    file::create_folder(&folder)?;
    Ok(folder)
}

/// Runs one target after the other. Other work may use the other processors.
fn fuzz(seed: Option<u32>, targets: &[String], length: Duration) -> Result<()> {
    let folder = folder()?;
    let session = Session {
        program: build::program(&folder)?,
        folder,
        seed,
        share: session::share(length, targets.len()),
    };
    say(&format!(
        "{} targets, {} s each",
        targets.len(),
        session.share.as_secs()
    ));
    let mut failed = Vec::new();
    for target in targets {
        if !session.run(target)? {
            failed.push(target.as_str());
        }
    }
    ensure!(failed.is_empty(), "{} failed", failed.join(", "));
    Ok(())
}
