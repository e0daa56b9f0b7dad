//! `cargo xtask pictures`: the pictures of the documentation, from a run on a real cluster with real Istio.
//!
//! Two cluster tests produce the data: the coloured output of `usher`, and the series of every dashboard panel as a
//! real Prometheus returns them. The data is kept, so `--again` needs no cluster.

pub(crate) mod distribution;
mod panel;
mod style;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use usher_cluster::{Config, programs::Sidecars, progress::say};

use self::panel::Run;
use crate::{
    cluster, file, supervisor,
    workspace::{cargo, root, run as run_command, shown, target_dir},
};

const CLUSTER: &str = "pictures";
/// The subcommands of `usher` with a picture.
pub(crate) const COMMANDS: [&str; 2] = ["explain", "status"];
const COMMAND_FOLDER: &str = "docs/images/cli";
const PANEL_FOLDER: &str = "docs/images/metrics";
const TESTS: [&str; 2] = ["cli_pictures::", "prometheus::"];
/// Variables with the paths of the data for the tests.
const TEXTS_VARIABLE: &str = "USHER_TEST_PICTURES";
const SERIES_VARIABLE: &str = "USHER_TEST_RANGES";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Draw the data of the last run again
    #[arg(long)]
    again: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let data = target_dir().join(CLUSTER);
    if args.again {
        return draw(&data).map(|()| ExitCode::SUCCESS);
    }
    supervisor::run(&[CLUSTER], || {
        cluster::recreate(Config {
            sidecars: Sidecars::Istio,
            ..Config::from_env(CLUSTER)?
        })?;
        test(&data)?;
        draw(&data)
    })
}

fn series(data: &Path) -> PathBuf {
    data.join("ranges.json")
}

fn test(data: &Path) -> Result<()> {
    file::create_folder(data)?;
    let mut test = cargo("test --package usher-tests --test cluster --".split(' '));
    test.args(TESTS)
        .env(cluster::VARIABLE, CLUSTER)
        .env(TEXTS_VARIABLE, data)
        .env(SERIES_VARIABLE, series(data));
    run_command(&mut test)
}

fn draw(data: &Path) -> Result<()> {
    for name in COMMANDS {
        let text = file::read(data.join(name).with_extension("ansi"))?;
        let svg = anstyle_svg::Term::new().render_svg(&text);
        let folder = root().join(COMMAND_FOLDER);
        write(&folder.join(name).with_extension("svg"), &svg)?;
    }
    let run = Run::parse(&file::read(series(data))?)?;
    let folder = root().join(PANEL_FOLDER);
    file::renew_folder(&folder)?;
    for panel in run.over_time() {
        write(&folder.join(file_name(&panel.title)), &panel.draw(&run)?)?;
    }
    Ok(())
}

fn write(path: &Path, svg: &str) -> Result<()> {
    file::write(path, svg)?;
    say(&format!("{}: written", shown(path)));
    Ok(())
}

pub(crate) fn file_name(title: &str) -> String {
    let words: Vec<String> = title
        .split([' ', ':', ','])
        .map(|word| word.chars().filter(char::is_ascii_alphanumeric).collect())
        .map(|word: String| word.to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    format!("{}.svg", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_names_of_titles() {
        assert_eq!(
            file_name("From the app's end to the request"),
            "from-the-apps-end-to-the-request.svg"
        );
        assert_eq!(file_name("Starts, by reason"), "starts-by-reason.svg");
    }

    #[test]
    fn terminal_output_keeps_its_colours() {
        let svg = anstyle_svg::Term::new().render_svg("$ usher <a>\n\u{1b}[1;32mok\u{1b}[0m\n");
        assert!(
            svg.contains("usher &lt;a&gt;") && svg.contains("fg-green"),
            "{svg}"
        );
    }
}
