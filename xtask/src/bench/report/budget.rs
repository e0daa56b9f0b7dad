//! The budgets, what was measured of each, and why one is not kept.

use std::fmt::Write;

use usher_tests::record::{Document, Figure};

use super::{
    REASONS,
    number::{limit, short, with_unit},
};
use crate::docs::markdown::table;

/// Every budget: the key of its figures, and what it is about.
const BUDGETS: [(&str, &str); 21] = [
    (
        "quit.p50",
        "app exit -> the sidecar has the quit request, 1 to 250 pods on the node, p50",
    ),
    (
        "quit.p99",
        "app exit -> the sidecar has the quit request, 1 to 250 pods on the node, p99",
    ),
    (
        "quit.ratio",
        "app exit -> the sidecar has the quit request, against an in-container wrapper that is the app's parent, p50",
    ),
    (
        "burst.p99",
        "250 pods that finish at once: all sidecars have the request, p99",
    ),
    (
        "job.ratio",
        "app exit -> Job complete, a Job with a regular sidecar against the same Job without one, p50",
    ),
    (
        "job.native",
        "app exit -> Job complete, less than with a native sidecar, p50",
    ),
    ("hold.p50", "proxy ready -> held connect completes, p50"),
    ("hold.release", "release -> connect, one connection, p50"),
    (
        "start.p50",
        "proxy ready -> main() of an app whose start is held, p50",
    ),
    (
        "start.missed",
        "apps that ran before, though their start was to be held",
    ),
    ("cni.p50", "added to CNI ADD, p50"),
    ("cni.p99", "added to CNI ADD, p99"),
    ("cni.absent", "added to CNI ADD without an agent, p50"),
    ("rest.resident", "agent of a full node, resident"),
    ("churn.resident", "agent while pods come and go, resident"),
    (
        "rest.cpu",
        "agent of a full node where nothing happens, CPU",
    ),
    (
        "rest.wakeups",
        "agent of a full node where nothing happens, wake-ups",
    ),
    (
        "api.rest",
        "agent of a full node where nothing happens, requests to the API server and the kubelet",
    ),
    ("api.watches", "watches at the API server for each node"),
    (
        "cli.first",
        "`usher pods` and `usher conns`, first output, p50",
    ),
    ("cli.memory", "`usher pods` and `usher conns`, most memory"),
];

/// Table and reasons.
pub(super) fn overview(documents: &[Document], reason: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = String::from("## Budgets\n\n");
    let (mut rows, mut reasons) = (Vec::new(), String::new());
    for (key, about) in BUDGETS {
        let figures = of_key(documents, key);
        rows.push(row(about, &figures));
        let kept = figures.iter().all(|figure| figure.is_kept() == Some(true));
        if figures.is_empty() || kept {
            continue;
        }
        let why =
            reason(key).unwrap_or_else(|| format!("Nobody wrote why yet: `{REASONS}/{key}.md`."));
        // Writing to a String cannot fail.
        write!(reasons, "**{about}.** {why}\n\n").ok();
    }
    text.push_str(&table(
        [
            "what",
            "budget",
            "measured",
            "ratio to the alternative",
            "kept",
        ],
        &rows,
    ));
    if !reasons.is_empty() {
        text.push_str("\n### What is not kept\n\n");
        text.push_str(reasons.trim_end());
        text.push('\n');
    }
    text + "\n"
}

/// All figures of a budget, in all benchmarks.
pub(super) fn of_key<'record>(documents: &'record [Document], key: &str) -> Vec<&'record Figure> {
    let sections = documents.iter().flat_map(|document| &document.sections);
    let figures = sections.flat_map(|section| &section.figures);
    figures.filter(|figure| figure.key == key).collect()
}

fn row(about: &str, figures: &[&Figure]) -> [String; 5] {
    let about = about.to_owned();
    let Some(first) = figures.first() else {
        return [
            about,
            String::new(),
            "not run".to_owned(),
            String::new(),
            String::new(),
        ];
    };
    let budget = first
        .limit
        .map_or_else(String::new, |one| limit(one, &first.unit));
    let kept = figures
        .iter()
        .filter(|figure| figure.is_kept() == Some(true));
    let (kept, all) = (kept.count(), figures.len());
    let verdict = match kept {
        _ if kept == all => "yes".to_owned(),
        _ if all == 1 => "**no**".to_owned(),
        _ => format!("**no**, {} of {all}", all - kept),
    };
    [about, budget, spread(figures), ratio(figures), verdict]
}

/// The lowest and the highest.
fn spread(figures: &[&Figure]) -> String {
    let unit = figures.first().map_or("", |figure| &figure.unit);
    let mut values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [least, .., most] if short(*least) != short(*most) => {
            format!("{} to {}", short(*least), with_unit(*most, unit))
        }
        [one, ..] => with_unit(*one, unit),
        [] => String::new(),
    }
}

/// Of the figure that is worst in comparison.
fn ratio(figures: &[&Figure]) -> String {
    let ratios = figures.iter().filter_map(|figure| {
        let (name, value) = figure.against.as_ref()?;
        Some((figure.value / value, name))
    });
    let worst = ratios.max_by(|one, other| one.0.total_cmp(&other.0));
    worst.map_or_else(String::new, |(ratio, name)| {
        format!("{} ({name})", short(ratio))
    })
}
