//! `cargo xtask docs`: the generated parts of hand-written pages.
//!
//! A generated part is between `<!-- generated: NAME -->` and `<!-- end generated -->`. Lint fails if a page differs from
//! the code. The tests parse the YAML examples of all pages.

mod cli;
pub(crate) mod configuration;
mod events;
pub(crate) mod markdown;
mod metrics;
mod page;
mod recipes;

use anyhow::{Result, ensure};
use usher_cluster::progress::say;

use self::page::Part;
use crate::file;

const PARTS: [Part; 10] = [
    ("sidecars", "overview of recipes", recipes::overview),
    ("sidecars", "recipes", recipes::each),
    ("configuration", "annotations", configuration::annotations),
    ("configuration", "configuration keys", configuration::keys),
    ("metrics", "metrics", metrics::reference),
    ("metrics", "alerts", metrics::alerts),
    ("metrics", "recorded", metrics::recorded),
    ("metrics", "panels", metrics::panels),
    ("events", "reasons", events::reasons),
    ("reference-cli", "command lines", cli::reference),
];

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
    let pages = generated()?.into_iter();
    let differing: Vec<String> = pages
        .filter(|(_, current, wanted)| current != wanted)
        .map(|(path, ..)| path)
        .collect();
    ensure!(
        differing.is_empty(),
        "{} differ from the code; `cargo xtask docs` writes them",
        differing.join(", ")
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

#[cfg(test)]
mod tests;
