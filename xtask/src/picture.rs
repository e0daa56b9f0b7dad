//! `cargo xtask pictures`: what `usher` prints on a terminal, as pictures for the documentation, from a real run.
//!
//! The run is a test on a real cluster with a real Istio; it leaves what the commands printed, colours and all, which is
//! drawn here.

mod ansi;
mod terminal;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use usher_cluster::progress::say;

use crate::{
    staged::{self, Stage},
    workspace::{root, shown, target_dir},
};

/// Where the pictures are.
const FOLDER: &str = "docs/images/cli";
/// Of what there are pictures.
pub(crate) const NAMES: [&str; 2] = ["explain", "status"];
/// What the tests are told: where the text goes.
const STAGE: Stage = Stage {
    cluster: "pictures",
    tests: "cli_pictures::",
    variable: "USHER_TEST_PICTURES",
};

pub(crate) fn run(args: &staged::Args) -> Result<ExitCode> {
    let texts = target_dir().join("pictures");
    fs::create_dir_all(&texts).with_context(|| format!("create {}", texts.display()))?;
    staged::run(args, &STAGE, &texts, draw)
}

fn draw(texts: &Path) -> Result<()> {
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).context("make a place for the pictures")?;
    for name in NAMES {
        let path = texts.join(name).with_extension("ansi");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("read {}: was there a run?", path.display()))?;
        let lines = ansi::lines(&text);
        ensure!(lines.len() > 1, "{} has nothing in it", path.display());
        let picture = picture(&folder, name);
        let drawn = terminal::of(&format!("usher {name}"), &lines);
        fs::write(&picture, drawn).with_context(|| format!("write {}", picture.display()))?;
        say(&format!("{} is drawn", shown(&picture)));
    }
    Ok(())
}

fn picture(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("svg")
}
