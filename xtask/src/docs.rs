//! `cargo xtask docs`: what the code knows best, written into hand-written pages.
//!
//! A page says where: between `<!-- generated: NAME -->` and `<!-- end generated -->`. `--check`, which lint runs, writes
//! nothing and fails where a page says something else than the code. Examples in YAML are read as usher reads them.

mod cli;
mod configuration;
mod events;
mod example;
pub(crate) mod markdown;
mod metrics;
mod page;
mod recipe;
mod recipes;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use usher_cluster::progress::say;

use self::page::Part;
use crate::{
    test::{reliability, vm},
    workspace::root,
};

/// The pages that have generated parts, and which.
const PAGES: [(&str, &[Part]); 7] = [
    (
        "docs/sidecars.md",
        &[
            Part {
                name: "overview of recipes",
                write: || Ok(recipes::overview()),
            },
            Part {
                name: "recipes",
                write: || Ok(recipes::each()),
            },
        ],
    ),
    (
        "docs/configuration.md",
        &[
            Part {
                name: "annotations",
                write: || Ok(configuration::annotations()),
            },
            Part {
                name: "configuration keys",
                write: || Ok(configuration::keys()),
            },
        ],
    ),
    (
        "docs/metrics.md",
        &[
            Part {
                name: "metrics",
                write: || Ok(metrics::reference()),
            },
            Part {
                name: "alerts",
                write: || Ok(metrics::alerts()),
            },
            Part {
                name: "recorded",
                write: || Ok(metrics::recorded()),
            },
            Part {
                name: "panels",
                write: || Ok(metrics::panels()),
            },
        ],
    ),
    (
        "docs/events.md",
        &[Part {
            name: "reasons",
            write: || Ok(events::reasons()),
        }],
    ),
    (
        "docs/reference-cli.md",
        &[Part {
            name: "command lines",
            write: cli::reference,
        }],
    ),
    (
        "docs/reliability.md",
        &[Part {
            name: "faults",
            write: reliability::table,
        }],
    ),
    (
        "docs/compatibility.md",
        &[Part {
            name: "kernels",
            write: vm::tables,
        }],
    ),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where a page differs from the code
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        return check();
    }
    write()
}

/// Writes what differs from the code.
pub(crate) fn write() -> Result<()> {
    for (path, parts) in PAGES {
        let now = read(path)?;
        let wanted = page::filled(path, &now, parts)?;
        if wanted != now {
            fs::write(root().join(path), wanted).with_context(|| format!("write {path}"))?;
            say(&format!("{path}: written"));
        }
    }
    examples()
}

/// Fails where a page differs from the code, or an example cannot be used.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for (path, parts) in PAGES {
        let now = read(path)?;
        let wanted = page::filled(path, &now, parts)?;
        wrong.extend(page::difference(path, &now, &wanted));
    }
    for difference in &wrong {
        say(difference);
    }
    if !wrong.is_empty() {
        bail!("the documentation is not what the code says; `cargo xtask docs` writes it");
    }
    examples()
}

/// Every key of the configuration file, as a path.
#[cfg(test)]
pub(crate) fn configuration_keys() -> impl Iterator<Item = &'static str> {
    configuration::names()
}

fn examples() -> Result<()> {
    let mut wrong = Vec::new();
    for path in pages()? {
        wrong.extend(example::wrong(&path, &read(&path)?));
    }
    for problem in &wrong {
        say(problem);
    }
    if !wrong.is_empty() {
        bail!(
            "{} of the examples in the documentation cannot be used",
            wrong.len()
        );
    }
    Ok(())
}

/// Every page that people read.
fn pages() -> Result<Vec<String>> {
    let mut pages = vec!["README.md".to_owned()];
    let folder = root().join("docs");
    for entry in fs::read_dir(&folder).context("list docs")? {
        let name = entry.context("list docs")?.file_name();
        if Path::new(&name).extension().is_some_and(|end| end == "md") {
            pages.push(format!("docs/{}", name.display()));
        }
    }
    pages.sort();
    Ok(pages)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("read {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_say_what_the_code_says() {
        check().unwrap();
    }

    #[test]
    fn every_page_is_read_for_examples() {
        let pages = pages().unwrap();
        for (path, _) in PAGES {
            assert!(pages.iter().any(|page| page == path), "{path}");
        }
    }
}
