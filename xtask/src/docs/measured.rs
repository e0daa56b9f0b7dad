//! Measured figures on other pages, copied from the table of budgets in `docs/performance.md`.

use anyhow::{Context, Result, ensure};

use super::markdown::table;
use crate::file;

const PAGE: &str = "docs/performance.md";
const HEADING: &str = "## Budgets\n";
/// Rows of the table that compare usher with an alternative, by the start of their subject.
const COMPARED: [&str; 5] = [
    "app exit -> the sidecar has the quit request, 1 to 250 pods on the node, p50",
    "app exit -> Job complete, less than with a native sidecar, p50",
    "proxy ready -> held connect completes, p50",
    "proxy ready -> main() of an app whose start is held, p50",
    "added to CNI ADD, p50",
];

/// usher's time, and its ratio to the alternative.
pub(super) fn comparison() -> Result<String> {
    let rows = rows(&file::read(PAGE)?)?;
    Ok(table(["what", "usher", "ratio to the alternative"], &rows))
}

fn rows(page: &str) -> Result<Vec<[String; 3]>> {
    let (_before, budgets) = page
        .split_once(HEADING)
        .with_context(|| format!("{PAGE}: no {}", HEADING.trim_end()))?;
    let lines: Vec<Vec<&str>> = budgets
        .lines()
        .take_while(|line| !line.starts_with('#'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let row = |subject: &&str| {
        let cells = lines.iter().find(|cells| cells.get(1) == Some(subject));
        let cells = cells.with_context(|| format!("{PAGE}: no row {subject:?}"))?;
        ensure!(cells.len() == 7, "{PAGE}: {subject:?} has other columns");
        Ok([cells[1], cells[3], cells[4]].map(str::to_owned))
    };
    COMPARED.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_that_is_missing_or_has_other_columns_is_an_error() {
        let page = file::read(PAGE).unwrap();
        assert_eq!(rows(&page).unwrap().len(), COMPARED.len());
        let error = |page: &str| rows(page).unwrap_err().to_string();
        assert!(error(&page.replace(COMPARED[1], "another")).contains("no row"));
        let changed = page.replace(COMPARED[0], &format!("{} | x", COMPARED[0]));
        assert!(error(&changed).contains("other columns"));
        assert!(error("# Performance\n").contains("## Budgets"));
    }
}
