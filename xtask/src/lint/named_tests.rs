//! Checks the tests that the pages about security and reliability name: each test exists, and each row of a table with
//! a column for tests names one.

use std::path::Path;

use super::{finding::Finding, source::Source};

const PAGES: [&str; 2] = ["docs/security.md", "docs/reliability.md"];
const RULE: &str = "named-test";
/// The titles of the column for tests.
const COLUMNS: [&str; 2] = ["test", "tests"];
/// The folders that paths in the pages start with.
const FOLDERS: [&str; 4] = ["agent/", "cni-plugin/", "tests/", "xtask/"];
/// A name with this many words is a test. System calls have fewer.
const WORDS: usize = 5;
/// All tests of a module.
const ALL: &str = "*";

/// `exists` tests a path relative to the top of the repository.
pub(super) fn check(sources: &[Source], exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let tests: Vec<(Vec<&str>, Vec<&str>)> = sources
        .iter()
        .filter(|source| source.is_rust())
        .map(|source| (modules(&source.path), functions(&source.text)))
        .collect();
    let is_page = |source: &&Source| PAGES.contains(&source.path.as_str());
    let mut found = Vec::new();
    for page in sources.iter().filter(is_page) {
        for (line, span) in page.prose().flat_map(spans) {
            let missing = match is_path(span) {
                true if !exists(Path::new(span)) => "file",
                false if is_test_name(span) && !is_test(&tests, span) => "test",
                _ => continue,
            };
            let message = format!("{span}: no such {missing}");
            found.push(Finding::error(&page.path, line, RULE, message));
        }
        found.extend(rows_without_tests(page));
    }
    found
}

/// The folders and the module of a file. The `main.rs` of a test program belongs to its folder.
fn modules(path: &str) -> Vec<&str> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/main");
    path.split('/').collect()
}

/// The names of the functions that are tests.
fn functions(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && is_test
        {
            found.extend(rest.split('(').next());
            is_test = false;
        }
    }
    found
}

/// The texts between backticks.
fn spans((number, text): (usize, &str)) -> impl Iterator<Item = (usize, &str)> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(move |span| (number, span))
}

fn is_path(span: &str) -> bool {
    FOLDERS.iter().any(|folder| span.starts_with(folder))
}

fn is_test_name(span: &str) -> bool {
    let is_letter = |letter| matches!(letter, 'a'..='z' | '0'..='9' | '_');
    let is_name = |part: &str| !part.is_empty() && part.chars().all(is_letter);
    let has_words = span.split('_').count() >= WORDS && !span.starts_with("usher_");
    (span.contains("::") || has_words) && span.split("::").all(|part| part == ALL || is_name(part))
}

/// Whether a file has a test of this name, and its modules match those before the name.
fn is_test(tests: &[(Vec<&str>, Vec<&str>)], span: &str) -> bool {
    let mut path: Vec<&str> = span.split("::").collect();
    let Some(name) = path.pop() else {
        return false;
    };
    // A module `tests` is in the file itself or in a file of its own.
    let within = path.strip_suffix(&["tests"]).unwrap_or(&path);
    tests.iter().any(|(file, functions)| {
        let is_file = file.ends_with(&path) || file.ends_with(within);
        is_file && (functions.contains(&name) || name == ALL && !functions.is_empty())
    })
}

/// The rows of tables that name no test in the column for tests.
fn rows_without_tests(page: &Source) -> Vec<Finding> {
    let mut column = None;
    let mut found = Vec::new();
    for (number, text) in page.prose() {
        let Some(row) = text.strip_prefix('|') else {
            column = None;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some(tests) = column else {
            let title = cells.iter().position(|cell| COLUMNS.contains(cell));
            // Without such a column, use an index that no row has.
            column = Some(title.unwrap_or(usize::MAX));
            continue;
        };
        let Some(cell) = cells.get(tests).filter(|cell| !cell.starts_with("---")) else {
            continue;
        };
        if !spans((number, cell)).any(|(_, span)| is_path(span) || is_test_name(span)) {
            let fault = format!("\"{}\" names no test", cells[0]);
            found.push(Finding::error(&page.path, number, RULE, fault));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    fn found(page: &str) -> Vec<String> {
        let test = "#[test]\nfn one_two_three_four_five() {}\nfn helper() {}\n";
        let sources = [
            ("docs/security.md", page),
            ("tests/tests/hold/owner.rs", test),
            ("tests/tests/edges/main.rs", test),
            ("agent/sys/src/netns.rs", test),
        ];
        let sources = sources.map(|(path, text)| Source::new(path, text));
        let exists = |path: &Path| path.starts_with("tests/tests/hold");
        let found = check(&sources, exists);
        found
            .iter()
            .map(|finding| format!("{} {}", finding.line, finding.message))
            .collect()
    }

    /// A word of each fault that the matrix in the page about reliability must have.
    const FAULTS: [&str; 24] = [
        "any kind of action",
        "while connections wait",
        "while starts wait",
        "absent at an exit",
        "containerd",
        "kubelet",
        "API server",
        "clock jumps",
        "full disk",
        "inotify queue",
        "instances exhausted",
        "ENOBUFS",
        "EMFILE",
        "memory limit",
        "/proc slow",
        "CPU starvation",
        "sidecar hangs",
        "hundreds of pods",
        "pid, sandbox or pod",
        "kernel lacks",
        "CNI configuration",
        "usher uninstalled",
        "malformed input",
        "deleted configuration",
    ];

    #[test]
    fn every_fault_has_a_row() {
        let page = file::read(PAGES[1]).unwrap();
        let (_, matrix) = page
            .split_once("\n| fault | what happens | tests |\n")
            .unwrap();
        for word in FAULTS {
            let mut rows = matrix.lines().take_while(|line| line.starts_with('|'));
            let fault = |row: &str| row.split('|').nth(1).unwrap().to_owned();
            assert!(
                rows.any(|row| fault(row).contains(word)),
                "no row about {word}"
            );
        }
    }

    #[test]
    fn missing_tests_and_files_are_found() {
        let page = "`owner::one_two_three_four_five` `owner::*` `owner::helper`\n\
                    `netns::tests::one_two_three_four_five` `a::one_two_three_four_five` `edges::*`\n\
                    `one_two_three_four_five` `one_two_three_four_six`\n\
                    `open_by_handle_at` `usher_hold_dropped_copies_total` `SYS_ADMIN`\n\
                    `tests/tests/hold/owner.rs` `tests/tests/gone.rs`\n";
        let expected = [
            "1 owner::helper: no such test",
            "2 a::one_two_three_four_five: no such test",
            "3 one_two_three_four_six: no such test",
            "5 tests/tests/gone.rs: no such file",
        ];
        assert_eq!(found(page), expected);
    }

    #[test]
    fn rows_without_a_test_are_found() {
        let page = "| attack | test |\n| --- | --- |\n| a | `owner::*` |\n| b | `hostUsers: false` |\n\n\
                    | file | use |\n| --- | --- |\n| c | d |\n";
        assert_eq!(found(page), ["4 \"b\" names no test"]);
    }
}
