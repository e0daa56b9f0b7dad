//! `cargo xtask plots`: the panels of the dashboard as pictures for the documentation, from a real run.
//!
//! The run is the test of the cluster that asks a real Prometheus every query of the dashboard; it leaves what the panels
//! show as data, which is drawn here.

mod axis;
mod chart;
mod data;
pub(crate) mod distribution;
mod legend;
pub(crate) mod svg;
mod tile;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use usher_cluster::progress::say;

use self::data::Run;
use crate::{
    staged::{self, Stage},
    workspace::{root, shown, target_dir},
};

/// Where the pictures are, and what they are called there.
const FOLDER: &str = "docs/images/metrics";
/// What the tests are told: where the data goes.
const STAGE: Stage = Stage {
    cluster: "plots",
    tests: "prometheus::",
    variable: "USHER_TEST_RANGES",
};
/// The picture of all panels that show one number.
pub(crate) const OVERVIEW: &str = "overview";

pub(crate) fn run(args: &staged::Args) -> Result<ExitCode> {
    staged::run(args, &STAGE, &target_dir().join("plots/ranges.json"), draw)
}

/// Draws all panels, and removes pictures of panels that are gone.
fn draw(data: &Path) -> Result<()> {
    let text = fs::read_to_string(data)
        .with_context(|| format!("read {}: was there a run?", data.display()))?;
    let run = Run::parse(&text).context("read the data of the run")?;
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).context("remove the old pictures")?;
    }
    fs::create_dir_all(&folder).context("make a place for the pictures")?;
    let mut pictures: Vec<(PathBuf, String)> = run
        .lines()
        .map(|panel| (picture(&folder, &panel.title), chart::of(&run, panel)))
        .collect();
    let numbers: Vec<_> = run.numbers().collect();
    pictures.push((picture(&folder, OVERVIEW), tile::of(&numbers)));
    for (path, text) in &pictures {
        fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    say(&format!(
        "{} pictures are in {}",
        pictures.len(),
        shown(&folder)
    ));
    Ok(())
}

fn picture(folder: &Path, title: &str) -> PathBuf {
    folder.join(file(title))
}

/// The file of a panel's picture.
pub(crate) fn file(title: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric().then_some(letter);
    let words = title.split([' ', ':', ',']).map(|word| {
        let word: String = word.chars().filter_map(plain).collect();
        word.to_lowercase()
    });
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    format!("{}.svg", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_after_panels() {
        assert_eq!(
            file("From the app's end to the request"),
            "from-the-apps-end-to-the-request.svg"
        );
        assert_eq!(file("Starts let go, by why"), "starts-let-go-by-why.svg");
    }
}
