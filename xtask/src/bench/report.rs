//! Writes `docs/performance.md` from the records of all benchmarks. While a record is missing, the report is written
//! next to the records and the page is not changed.
//!
//! Everything is generated except the texts in `docs/performance`: `KEY.md` has the reason for a budget that was exceeded.

mod budget;
mod number;
mod section;
mod setting;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use usher_cluster::progress::say;
use usher_tests::record::Document;

use super::{Name, records};
use crate::{
    file,
    workspace::{root, shown},
};

const PAGE: &str = "performance.md";
/// The folder of the pictures, relative to the page.
const PICTURES: &str = "images/performance";
/// The folder of the reasons, in files named by key.
const REASONS: &str = "docs/performance";
/// Files in that folder for the end of the page, with their headings.
const NOTES: [(&str, &str); 2] = [
    ("fleet", "5,000 nodes, computed"),
    ("elsewhere", "On another machine"),
];
pub(super) fn write() -> Result<()> {
    let documents = read(&records())?;
    ensure!(
        !documents.is_empty(),
        "no records in {}; `cargo xtask bench` writes them",
        shown(&records())
    );
    let mut pictures = Vec::new();
    let text = page(&documents, &reason, &mut pictures)?;
    let missing = missing(&documents);
    let place = if missing.is_empty() {
        root().join("docs")
    } else {
        records()
    };
    let folder = place.join(PICTURES);
    file::renew_folder(&folder)?;
    for (name, text) in &pictures {
        file::write(folder.join(name), text)?;
    }
    let page = place.join(PAGE);
    file::write(&page, text)?;
    let (page, count) = (shown(&page), pictures.len());
    say(&format!("{page} and {count} pictures are written"));
    if !missing.is_empty() {
        let missing = missing.join(", ");
        say(&format!(
            "docs/{PAGE} stays as it is: no record of {missing}"
        ));
    }
    Ok(())
}

/// The names of all benchmarks.
fn names() -> impl Iterator<Item = String> {
    Name::benchmarks(Name::value_variants()).map(Name::program)
}

/// The benchmarks without a record.
fn missing(documents: &[Document]) -> Vec<String> {
    let is_missing = |name: &String| documents.iter().all(|document| document.bench != *name);
    names().filter(is_missing).collect()
}

fn read(folder: &Path) -> Result<Vec<Document>> {
    let paths = names().map(|name| folder.join(format!("{name}.json")));
    let there = paths.filter(|path| path.exists());
    let read =
        |path: PathBuf| Document::read(&path).with_context(|| format!("read {}", path.display()));
    there.map(read).collect()
}

fn reason(key: &str) -> Option<String> {
    let text = file::read(format!("{REASONS}/{key}.md")).ok()?;
    Some(text.trim().to_owned())
}

/// The text of the page. Adds each picture with its file name to `pictures`.
fn page(
    documents: &[Document],
    reason: &dyn Fn(&str) -> Option<String>,
    pictures: &mut Vec<(String, String)>,
) -> Result<String> {
    let mut page = String::from(
        "# Performance\n\n\
         <!-- Written by `cargo xtask bench report`; a change here is lost. Reasons are in docs/performance/. -->\n\n\
         The cost of usher and of its alternatives, in the same run on the same machine. Ratios count: absolute figures depend\n\
         on the machine and its load, which is listed below. All times are measured, none is computed; p50 is the median, p99\n\
         the nearest rank.\n\n",
    );
    page.push_str(&budget::overview(documents, reason));
    page.push_str(&setting::section(documents));
    for document in documents {
        page.push_str(&section::section(document, pictures)?);
    }
    for (file, title) in NOTES {
        if let Some(text) = reason(file) {
            page.push_str(&format!("## {title}\n\n{text}\n\n"));
        }
    }
    Ok(page.trim_end().to_owned() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let json = r#"{
            "bench": "quit", "command": "cargo xtask bench quit --quick", "is_quick": true,
            "began_unix_s": 1763780000, "took_s": 61.5,
            "about": { "cpu": "A | B", "cores": 2, "memory_mib": 4096, "kernel": "6.1", "load_before": 0.1, "load_most": 2.5 },
            "versions": [["Kubernetes", "v1"]],
            "sections": [{ "title": "exit -> request, 1 pod",
                "series": [{ "name": "agent", "ms": [0.2, 0.3] }, { "name": "wrapper", "ms": [0.25, 0.3] }],
                "figures": [
                    { "key": "quit.p50", "what": "p50", "unit": "ms", "value": 0.2, "limit": { "AtMost": 1.0 }, "against": ["wrapper", 0.25] },
                    { "key": "quit.p50", "what": "p50", "unit": "ms", "value": 1.2, "limit": { "AtMost": 1.0 }, "against": ["wrapper", 0.6] },
                    { "key": "quit.p99", "what": "p99", "unit": "ms", "value": null, "limit": { "AtMost": 5.0 }, "against": null }
                ] }]
        }"#;
        serde_json::from_str(json).unwrap()
    }

    fn page_of(documents: &[Document]) -> (String, Vec<(String, String)>) {
        let mut pictures = Vec::new();
        let reason = |key: &str| match key {
            "quit.p50" => Some("It was too warm.".to_owned()),
            "fleet" => Some("Many.".to_owned()),
            "elsewhere" => Some("It was colder there.".to_owned()),
            _ => None,
        };
        let page = page(documents, &reason, &mut pictures);
        (page.unwrap(), pictures)
    }

    #[test]
    fn budget_with_one_missed_figure_is_not_kept_and_has_its_reason() {
        let (page, _) = page_of(&[document()]);
        let row = "| 0.2 to 1.2 ms | 2 (wrapper) | **no**, 1 of 2 |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("It was too warm."), "{page}");
    }

    #[test]
    fn notes_are_at_the_end() {
        let (page, _) = page_of(&[document()]);
        let end =
            "## 5,000 nodes, computed\n\nMany.\n\n## On another machine\n\nIt was colder there.\n";
        assert!(page.ends_with(end), "{page}");
    }

    #[test]
    fn every_heading_has_an_empty_line_above() {
        let (page, _) = page_of(&[document()]);
        let lines: Vec<&str> = page.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[1].starts_with('#')) {
            assert_eq!(pair[0], "", "above {:?}", pair[1]);
        }
    }

    #[test]
    fn missing_measurement_is_not_kept_and_missing_run_is_reported() {
        let (page, _) = page_of(&[document()]);
        assert!(page.contains("| not measured | | **no**"), "{page}");
        assert!(page.contains("| not run |"), "{page}");
        assert!(page.contains("docs/performance/quit.p99.md"), "{page}");
    }

    #[test]
    fn compared_times_have_a_picture() {
        let (page, pictures) = page_of(&[document()]);
        let [(name, svg)] = pictures.as_slice() else {
            panic!("{} pictures", pictures.len());
        };
        assert_eq!(name, "quit-exit-request-1-pod.svg");
        assert!(
            page.contains(&format!("(images/performance/{name})")),
            "{page}"
        );
        assert!(svg.contains("wrapper") && svg.contains("p50 1 ms"), "{svg}");
    }

    #[test]
    fn benchmarks_without_a_record_are_missing() {
        let mut documents = vec![document()];
        assert_eq!(missing(&documents), names().skip(1).collect::<Vec<_>>());
        documents.extend(names().skip(1).map(|bench| Document {
            bench,
            ..document()
        }));
        assert_eq!(missing(&documents), [""; 0]);
    }

    #[test]
    fn busy_machine_is_reported() {
        let mut document = document();
        assert!(!page_of(&[document.clone()]).0.contains(setting::BUSY));
        document.about.load_before = 2.1;
        assert!(page_of(&[document]).0.contains(setting::BUSY));
    }

    #[test]
    fn machine_cannot_break_the_table() {
        let (page, _) = page_of(&[document()]);
        assert!(page.contains("A \\| B"), "{page}");
        assert!(page.contains("cargo xtask bench quit --quick"), "{page}");
    }
}
