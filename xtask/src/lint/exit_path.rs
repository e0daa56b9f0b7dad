//! Checks that the table "Path of an exit" of ARCHITECTURE.md is short and matches the code.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{finding::Finding, rust_file::RustFile};
use crate::file;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "Path of an exit";
const MAX_FUNCTIONS: usize = 18;
const MAX_FILES: usize = 9;

/// A line such as `| 3 | agent/core/src/engine.rs | Engine::step |`: its number, the file and the function.
type Row<'a> = (usize, &'a str, &'a str);

pub(super) fn check() -> Result<Vec<Finding>> {
    let text = file::read(PAGE)?;
    let rows = rows(&text);
    let error = |line, message| Finding::error(PAGE, line, "exit-path", message);
    let missing = rows
        .iter()
        .filter(|(_, path, function)| !file::read(path).is_ok_and(|text| defines(&text, function)));
    let missing = missing
        .map(|(line, path, function)| error(*line, format!("{path} has no function {function}")));
    let length = wrong_length(&rows).map(|message| error(1, message));
    Ok(length.into_iter().chain(missing).collect())
}

/// The rows below the heading.
fn rows(page: &str) -> Vec<Row<'_>> {
    let is_heading = |line: &str| line.starts_with('#');
    (1..)
        .zip(page.lines())
        .skip_while(|(_, line)| !is_heading(line) || !line.contains(HEADING))
        .skip(1)
        .take_while(|(_, line)| !is_heading(line))
        .filter_map(|(number, line)| {
            let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`'));
            let file = cells.find(|cell| cell.ends_with(".rs"))?;
            Some((number, file, cells.next()?))
        })
        .collect()
}

fn wrong_length(rows: &[Row<'_>]) -> Option<String> {
    let files: BTreeSet<&str> = rows.iter().map(|(_, file, _)| *file).collect();
    let (functions, files) = (rows.len(), files.len());
    let is_right = (1..=MAX_FUNCTIONS).contains(&functions) && files <= MAX_FILES;
    (!is_right).then(|| {
        format!(
            "{functions} functions in {files} files under \"{HEADING}\"; 1 to {MAX_FUNCTIONS} in at most {MAX_FILES} \
             are accepted"
        )
    })
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
        assert_eq!(rows(page), [(7, "a/b.rs", "Engine::step")]);
        assert_eq!(rows("# A\n"), []);
    }

    #[test]
    fn functions_are_defined() {
        let text = "impl Engine {\n    fn step(&self) {}\n}\nfn other();\n";
        assert!(defines(text, "Engine::step") && defines(text, "step()"));
        assert!(!defines(text, "Engine::other"));
    }

    #[test]
    fn long_paths_are_errors() {
        let rows = |count| -> Vec<Row<'_>> { (0..count).map(|line| (line, "a.rs", "b")).collect() };
        assert_eq!(wrong_length(&rows(18)), None);
        assert!(wrong_length(&rows(19)).is_some());
        assert!(wrong_length(&[]).is_some());
    }
}
