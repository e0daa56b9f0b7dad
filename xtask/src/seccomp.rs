//! `cargo xtask seccomp`: the system calls of a real run, as a seccomp profile for the agent's container.
//!
//! The programs as they are shipped go through the suites of synthetic pods under strace, which counts calls. What the
//! run did not show and may be needed all the same is a short list with reasons; what nobody may ever do is another, and a
//! run that shows one of those is an error.

mod calls;
mod profile;
mod trace;

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::{Context, Result};
use usher_cluster::progress::say;

use self::profile::Profile;
use crate::workspace::root;

/// For the kubelet's directory `seccomp`.
const PROFILE: &str = "deploy/seccomp/usher.json";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Suites to run [default: all that start the agent or the command]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Keep what is in the profile, and add to it
    #[arg(long)]
    add: bool,
    /// Run nothing: take what an earlier run left in this folder, as in target/seccomp
    #[arg(long, value_name = "FOLDER", conflicts_with = "suites")]
    traced: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let traces = match &args.traced {
        Some(folder) => trace::counted(folder)?,
        None => trace::run(&args.suites)?,
    };
    let mut seen = BTreeSet::new();
    for (program, calls) in &traces {
        say(&format!("{program}: {} system calls", calls.len()));
        seen.extend(calls.iter().cloned());
    }
    if args.add {
        seen.extend(now()?.allowed());
    }
    let text = Profile::of(seen)?.text()?;
    let path = root().join(PROFILE);
    if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
        fs::write(&path, text).with_context(|| format!("write {PROFILE}"))?;
        say(&format!("{PROFILE}: written"));
    }
    Ok(())
}

fn now() -> Result<Profile> {
    let text = fs::read_to_string(root().join(PROFILE));
    let text = text.with_context(|| format!("read {PROFILE}"))?;
    serde_json::from_str(&text).with_context(|| format!("{PROFILE} is no profile"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_of_this_tree_is_one_and_allows_nothing_dangerous() {
        let profile = now().unwrap();
        let allowed = profile.allowed();
        // The same that is written from what it allows: sorted, with all that belongs to it.
        assert_eq!(
            Profile::of(allowed).unwrap().text().unwrap(),
            fs::read_to_string(root().join(PROFILE)).unwrap()
        );
    }
}
