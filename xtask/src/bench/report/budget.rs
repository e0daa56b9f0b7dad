//! The budgets, the measured figures of each, and the reasons for exceeded ones.

use std::fmt::Write;

use usher_tests::record::{Document, Figure};

use super::{
    REASONS,
    number::{limit, short, with_unit},
};
use crate::{docs::markdown::table, list::List};

/// In the order of the table.
static BUDGETS: List = List(include_str!("budgets.list"));

pub(super) fn overview(documents: &[Document], reason: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = String::from("## Budgets\n\n");
    let (mut rows, mut reasons) = (Vec::new(), String::new());
    for [key, about] in BUDGETS.rows("budget") {
        let figures = of_key(documents, key);
        rows.push(row(about, &figures));
        let kept = figures.iter().all(|figure| figure.is_kept() == Some(true));
        if figures.is_empty() || kept {
            continue;
        }
        let why = reason(key).unwrap_or_else(|| format!("No reason in `{REASONS}/{key}.md` yet."));
        // Writing to a String cannot fail.
        write!(reasons, "**{about}.** {why}\n\n").ok();
    }
    let ratio = "ratio to the alternative";
    text.push_str(&table(["what", "budget", "measured", ratio, "kept"], &rows));
    if !reasons.is_empty() {
        text.push_str("\n### What is not kept\n\n");
        text.push_str(reasons.trim_end());
        text.push('\n');
    }
    text + "\n"
}

/// The figures of all benchmarks for one budget.
fn of_key<'record>(documents: &'record [Document], key: &str) -> Vec<&'record Figure> {
    let sections = documents.iter().flat_map(|document| &document.sections);
    let figures = sections.flat_map(|section| &section.figures);
    figures.filter(|figure| figure.key == key).collect()
}

fn row(about: &str, figures: &[&Figure]) -> [String; 5] {
    let Some(first) = figures.first() else {
        return [about, "", "not run", "", ""].map(str::to_owned);
    };
    let budget = first.limit.map(|one| limit(one, &first.unit));
    let is_kept = |figure: &&&Figure| figure.is_kept() == Some(true);
    let missed = figures.len() - figures.iter().filter(is_kept).count();
    let verdict = match (missed, figures.len()) {
        (0, _) => "yes".to_owned(),
        (_, 1) => "**no**".to_owned(),
        (missed, all) => format!("**no**, {missed} of {all}"),
    };
    [
        about.to_owned(),
        budget.unwrap_or_default(),
        spread(figures),
        ratio(figures),
        verdict,
    ]
}

/// The lowest and the highest figure.
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

/// The worst ratio of the figures.
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
