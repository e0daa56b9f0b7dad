//! The printed table of a benchmark.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]

use super::document::{Document, Figure, Limit, Series};
use super::quantile;

pub(super) fn print(document: &Document) {
    for section in &document.sections {
        println!("\n{}", section.title);
        section
            .series
            .iter()
            .for_each(|one| println!("{}", times(one)));
        section
            .figures
            .iter()
            .for_each(|one| println!("{}", figure(one)));
    }
    println!("\n{} budgets broken", document.broken());
}

fn times(series: &Series) -> String {
    format!(
        "  {:<34} p50 {:>8.3}   p99 {:>8.3}   max {:>8.3} ms   n {}",
        series.name,
        quantile(&series.ms, 0.50),
        quantile(&series.ms, 0.99),
        quantile(&series.ms, 1.0),
        series.ms.len(),
    )
}

fn figure(figure: &Figure) -> String {
    let what = match figure.unit.as_str() {
        "" => figure.what.clone(),
        unit => format!("{}, {unit}", figure.what),
    };
    let budget = match figure.limit {
        None => String::new(),
        Some(Limit::AtMost(most)) => format!("budget {most:>6}"),
        Some(Limit::Below(bound)) => format!("budget < {bound:.3}"),
        Some(Limit::Between(least, most)) => format!("budget {least} to {most}"),
    };
    let verdict = match figure.is_kept() {
        None => "",
        Some(true) => "   pass",
        Some(false) => "   FAIL",
    };
    let line = format!("  {what:<34}     {:>8.3}   {budget}{verdict}", figure.value);
    line.trim_end().to_owned()
}
