//! `cargo xtask fuzz`: every decoder of what comes from outside, fed with broken bytes for some time.
//!
//! The targets are in `tests/fuzz`, with a corpus that ordinary tests decode as well. What a run finds beside it is kept in
//! `target/fuzz/corpus`, where the next run begins; a crash and a hang stay in `target/fuzz/crashes` and are an error.

mod build;
mod outcome;
mod report;
mod session;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use usher_cluster::progress::say;
use usher_core::base::duration;

use self::{outcome::Outcome, session::Session};
use crate::workspace::{shown, target_dir};

pub(super) use build::has_compiler;

/// How long a pipeline fuzzes, and with `--all`.
const SHORT: Duration = Duration::from_secs(100);
const LONG: Duration = Duration::from_secs(10 * 60);
/// A pipeline has the same seed every time, so that it judges the change and not the seed.
const PIPELINE_SEED: u32 = 1;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long all of it takes, without the building; each target has its share
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = duration::parse)]
    lasts: Duration,
    /// Targets to run [default: all]
    #[arg(long = "target", value_name = "NAME", num_args = 1..)]
    targets: Vec<String>,
    /// How many targets run at once
    #[arg(long, default_value = "1", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let all = session::targets()?;
    if let Some(unknown) = args.targets.iter().find(|name| !all.contains(name)) {
        bail!("{unknown} is no target; there are: {}", all.join(", "));
    }
    let session = session(None)?;
    let targets = if args.targets.is_empty() {
        &all
    } else {
        &args.targets
    };
    fuzz(&session, targets, args.lasts, args.jobs.into())
}

/// All targets, on all processors.
pub(super) fn in_pipeline(is_long: bool) -> Result<()> {
    let session = session(Some(PIPELINE_SEED))?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let lasts = if is_long { LONG } else { SHORT };
    fuzz(&session, &session::targets()?, lasts, jobs)
}

fn place() -> Result<PathBuf> {
    let place = target_dir().join("fuzz");
    fs::create_dir_all(&place).with_context(|| format!("make {}", place.display()))?;
    Ok(place)
}

fn session(seed: Option<u32>) -> Result<Session> {
    let place = place()?;
    let program = build::program(&place)?;
    Ok(Session {
        program,
        place,
        seed,
    })
}

fn fuzz(session: &Session, targets: &[String], lasts: Duration, jobs: usize) -> Result<()> {
    let share = session::share(lasts, targets.len(), jobs);
    say(&format!(
        "{} targets, {} s each, {jobs} at once",
        targets.len(),
        share.as_secs()
    ));
    let outcomes = session.all(targets, share, jobs)?;
    say(&format!("\n{}", report::table(&outcomes)));
    let file = session.place.join("report.json");
    fs::write(&file, report::json(&outcomes)?)
        .with_context(|| format!("write {}", file.display()))?;
    say(&format!("the same as JSON: {}", shown(&file)));
    let failures: Vec<&Outcome> = outcomes
        .iter()
        .filter(|one| one.failure.is_some())
        .collect();
    for failed in &failures {
        say(&report::failure(failed, session));
    }
    if failures.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = failures.iter().map(|one| one.target.as_str()).collect();
    bail!("{} failed", names.join(", "))
}
