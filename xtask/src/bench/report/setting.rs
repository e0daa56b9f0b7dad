//! The machine, the versions and the runs.

use std::{collections::BTreeSet, process::Command};

use jiff::Timestamp;
use usher_cluster::progress::output;
use usher_tests::record::Document;

use super::number::short;
use crate::{
    docs::markdown::{code, table},
    workspace::root,
};

/// A warning about doubtful figures.
pub(super) const BUSY: &str = "\n**The load before some of these runs was above the number of cores: from the previous benchmark or from \
                    other work. With other work, the times of these runs are not valid.**\n";

pub(super) fn section(documents: &[Document]) -> String {
    let mut text = String::from("## Where and how\n\n");
    let mut versions = vec![("usher".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    let rustc = output(Command::new("rustc").current_dir(root()).arg("--version"));
    versions.extend(rustc.map(|version| ("compiler".to_owned(), version.trim().to_owned())));
    versions.extend(
        documents
            .iter()
            .flat_map(|document| document.versions.clone()),
    );
    let machine = |document| ("machine".to_owned(), machine(document));
    versions.extend(documents.iter().map(machine));
    let mut seen = BTreeSet::new();
    versions.retain(|version| seen.insert(version.clone()));
    let rows: Vec<_> = versions.into_iter().map(<[String; 2]>::from).collect();
    text.push_str(&table(["of", "version"], &rows));
    text.push_str(
        "\nThe load is the average of one minute. Its highest value includes the benchmark itself.\n\n",
    );
    let rows: Vec<[String; 5]> = documents.iter().map(row).collect();
    let head = ["command", "begun", "minutes", "load before", "highest load"];
    text.push_str(&table(head, &rows));
    if documents.iter().any(|document| document.is_quick) {
        text.push_str(
            "\nWith `--quick` there are fewer samples, and p99 is the highest of most of them.\n",
        );
    }
    if documents.iter().any(is_disturbed) {
        text.push_str(BUSY);
    }
    text + "\n"
}

/// Whether the machine was busy before the measurement.
fn is_disturbed(document: &Document) -> bool {
    document.about.load_before > document.about.cores as f64
}

fn row(document: &Document) -> [String; 5] {
    let begun = i64::try_from(document.began_unix_s).unwrap_or_default();
    let begun =
        Timestamp::from_second(begun).map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
    [
        code(&document.command),
        begun.unwrap_or_default(),
        short(document.took_s / 60.0),
        short(document.about.load_before),
        short(document.about.load_most),
    ]
}

fn machine(document: &Document) -> String {
    let about = &document.about;
    let memory = (about.memory_mib as f64 / 1024.0).round();
    format!(
        "{}, {} cores, {memory} GiB, Linux {}",
        about.cpu, about.cores, about.kernel
    )
}
