//! `cargo xtask docs`: the generated parts of hand-written pages.
//!
//! A generated part is between `<!-- generated: NAME -->` and `<!-- end generated -->`. `--check`, which lint runs,
//! writes nothing and fails if a page differs from the code. The tests parse the YAML examples of all pages.

mod cli;
mod configuration;
mod events;
pub(crate) mod markdown;
mod metrics;
mod page;
mod recipe;
mod recipes;

use anyhow::{Result, ensure};
use usher_cluster::progress::say;

use self::page::Part;
use crate::file;

const PARTS: [Part; 10] = [
    (
        "sidecars",
        "overview of recipes",
        || Ok(recipes::overview()),
    ),
    ("sidecars", "recipes", || Ok(recipes::each())),
    ("configuration", "annotations", || {
        Ok(configuration::annotations())
    }),
    ("configuration", "configuration keys", configuration::keys),
    ("metrics", "metrics", || Ok(metrics::reference())),
    ("metrics", "alerts", metrics::alerts),
    ("metrics", "recorded", metrics::recorded),
    ("metrics", "panels", metrics::panels),
    ("events", "reasons", || Ok(events::reasons())),
    ("reference-cli", "command lines", cli::reference),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where a page differs from the code
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check { check() } else { write() }
}

/// Writes the pages that differ from the code.
pub(crate) fn write() -> Result<()> {
    for (path, current, wanted) in generated()? {
        if wanted != current {
            file::write(&path, wanted)?;
            say(&format!("{path}: written"));
        }
    }
    Ok(())
}

/// Fails if a page differs from the code.
pub(crate) fn check() -> Result<()> {
    let differences: Vec<String> = generated()?
        .iter()
        .filter_map(|(path, current, wanted)| page::difference(path, current, wanted))
        .collect();
    differences.iter().for_each(|difference| say(difference));
    ensure!(
        differences.is_empty(),
        "the documentation differs from the code; `cargo xtask docs` writes it"
    );
    Ok(())
}

/// Every page with generated parts: its path, its current text, and its text as the code generates it.
fn generated() -> Result<Vec<(String, String, String)>> {
    PARTS
        .chunk_by(|(one, ..), (next, ..)| one == next)
        .map(|parts| {
            let path = format!("docs/{}.md", parts[0].0);
            let current = file::read(&path)?;
            let wanted = page::fill(&path, &current, parts)?;
            Ok((path, current, wanted))
        })
        .collect()
}

/// Every key of the configuration file, as a path.
#[cfg(test)]
pub(crate) fn configuration_keys() -> impl Iterator<Item = &'static str> {
    configuration::names()
}

#[cfg(test)]
mod tests;
