//! The section of one benchmark.

use anyhow::Result;
use usher_tests::record::{Document, Figure, Limit, Section, Series, quantile};

use super::{
    PICTURES,
    number::{limit, short, with_unit},
};
use crate::{
    docs::markdown::table,
    pictures::{
        self,
        distribution::{self, Bound, Times},
    },
};

/// Minimum number of times for a distribution.
const FEW: usize = 2;

/// The text of the section. Adds its pictures to `pictures`.
pub(super) fn section(document: &Document, pictures: &mut Vec<(String, String)>) -> Result<String> {
    let mut text = format!("## {}\n\n", document.bench);
    for section in &document.sections {
        text.push_str(&format!("### {}\n\n", section.title));
        if let Some(svg) = picture(section)? {
            let name = pictures::file_name(&format!("{} {}", document.bench, section.title));
            text.push_str(&format!("![{}]({PICTURES}/{name})\n\n", section.title));
            pictures.push((name, svg));
        }
        if !section.series.is_empty() {
            let rows: Vec<[String; 5]> = section.series.iter().map(times).collect();
            text.push_str(&table(["times, ms", "p50", "p99", "most", "of"], &rows));
            text.push('\n');
        }
        if !section.figures.is_empty() {
            let rows: Vec<[String; 3]> = section.figures.iter().map(figure).collect();
            text.push_str(&table(["figure", "measured", "budget"], &rows));
            text.push('\n');
        }
    }
    Ok(text)
}

fn times(series: &Series) -> [String; 5] {
    let at = |part| short(quantile(&series.ms, part));
    let (name, count) = (series.name.trim().to_owned(), series.ms.len().to_string());
    [name, at(0.5), at(0.99), at(1.0), count]
}

fn figure(figure: &Figure) -> [String; 3] {
    let budget = figure.limit.map(|one| limit(one, &figure.unit));
    let verdict = if figure.is_kept() == Some(false) {
        ", **not kept**"
    } else {
        ""
    };
    [
        figure.what.trim().to_owned(),
        with_unit(figure.value, &figure.unit),
        budget.map_or_else(String::new, |budget| budget + verdict),
    ]
}

/// The distribution of times, if there is something to compare.
fn picture(section: &Section) -> Result<Option<String>> {
    let drawn = section
        .series
        .iter()
        .filter(|series| series.ms.len() >= FEW);
    let times: Vec<Times> = drawn
        .map(|series| Times {
            name: series.name.trim().to_owned(),
            sorted: series.ms.iter().map(|ms| ms / 1000.0).collect(),
        })
        .collect();
    let bounds: Vec<Bound> = section.figures.iter().filter_map(bound).collect();
    let is_worth = !times.is_empty() && (times.len() > 1 || !bounds.is_empty());
    is_worth
        .then(|| distribution::draw(&section.title, &times, &bounds))
        .transpose()
}

/// The limit of a figure, if its budget is a time.
fn bound(figure: &Figure) -> Option<Bound> {
    match figure.limit {
        Some(Limit::AtMost(most)) if figure.unit == "ms" => Some(Bound {
            name: figure.what.trim().to_owned(),
            at: most / 1000.0,
        }),
        _ => None,
    }
}
