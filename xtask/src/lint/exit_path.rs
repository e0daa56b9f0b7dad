//! Checks that the table "Path of an exit" of ARCHITECTURE.md is short and matches the code.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{finding::Finding, rust_file::RustFile};
use crate::file;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "Path of an exit";
const MAX_FUNCTIONS: usize = 18;
const MAX_FILES: usize = 9;

/// A row such as `| 3 | agent/core/src/engine.rs | Engine::step |`.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    line: usize,
    file: &'a str,
    function: &'a str,
}

pub(super) fn check() -> Result<Vec<Finding>> {
    let text = file::read(PAGE)?;
    let Some(rows) = rows(&text) else {
        let message = format!("no heading \"{HEADING}\"");
        let mut missing = Finding::error(PAGE, 1, "exit-path", message);
        missing.is_error = false;
        return Ok(vec![missing]);
    };
    let mut found = too_long(&rows);
    for row in &rows {
        let is_defined = file::read(row.file).is_ok_and(|text| defines(&text, row.function));
        if !is_defined {
            let message = format!("{} has no function {}", row.file, row.function);
            found.push(Finding::error(PAGE, row.line, "exit-path", message));
        }
    }
    Ok(found)
}

/// The rows below the heading; None if the heading is missing.
fn rows(page: &str) -> Option<Vec<Row<'_>>> {
    let lines: Vec<&str> = page.lines().collect();
    let is_heading = |line: &str| line.starts_with('#');
    let start = lines
        .iter()
        .position(|line| is_heading(line) && line.contains(HEADING))?;
    let rows = lines.iter().zip(1..).skip(start + 1);
    let rows = rows.take_while(|(line, _)| !is_heading(line));
    Some(
        rows.filter_map(|(line, number)| {
            let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`'));
            let file = cells.find(|cell| cell.ends_with(".rs"))?;
            Some(Row {
                line: number,
                file,
                function: cells.next()?,
            })
        })
        .collect(),
    )
}

fn too_long(rows: &[Row<'_>]) -> Vec<Finding> {
    let files: BTreeSet<&str> = rows.iter().map(|row| row.file).collect();
    let counts = [
        (rows.len(), MAX_FUNCTIONS, "functions"),
        (files.len(), MAX_FILES, "files"),
    ];
    let line = rows.first().map_or(1, |row| row.line);
    counts
        .iter()
        .filter(|(count, limit, _)| count > limit || *count == 0)
        .map(|(count, limit, what)| {
            let message = format!("{count} {what} under \"{HEADING}\"; 1 to {limit} are accepted");
            Finding::error(PAGE, line, "exit-path", message)
        })
        .collect()
}

fn defines(text: &str, function: &str) -> bool {
    let name = function.trim_end_matches("()").rsplit("::").next();
    RustFile::parse(text).is_ok_and(|file| {
        let mut functions = file.functions.iter();
        functions.any(|function| Some(function.name.as_str()) == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_files_and_functions() {
        let page = "# A\n\n## Path of an exit\n\n| step | file | function |\n| --- | --- | --- |\n\
                    | 1 | `a/b.rs` | `Engine::step` | reads |\n\n## Other\n\n| 1 | c.rs | d |\n";
        let row = Row {
            line: 7,
            file: "a/b.rs",
            function: "Engine::step",
        };
        assert_eq!(rows(page), Some(vec![row]));
        assert_eq!(rows("# A\n"), None);
    }

    #[test]
    fn functions_are_defined() {
        let text = "impl Engine {\n    fn step(&self) {}\n}\nfn other();\n";
        assert!(defines(text, "Engine::step") && defines(text, "step()"));
        assert!(!defines(text, "Engine::other"));
    }

    #[test]
    fn long_paths_are_errors() {
        let row = |line| Row {
            line,
            file: "a.rs",
            function: "b",
        };
        assert_eq!(too_long(&(1..=18).map(row).collect::<Vec<_>>()), []);
        assert_eq!(too_long(&(1..=19).map(row).collect::<Vec<_>>()).len(), 1);
        assert_eq!(too_long(&[]).len(), 2);
    }
}
