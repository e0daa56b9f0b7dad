//! A text file as the rules read it: numbered lines; for Rust, which lines are code and which are tests.

use std::path::Path;

use anyhow::Result;

use crate::{file, workspace::files};

/// Starts and ends code in a page.
const FENCE: &str = "```";

#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    pub(super) text: &'a str,
    pub(super) is_test: bool,
}

impl<'a> Line<'a> {
    /// The text without a comment.
    pub(super) fn code(&self) -> &'a str {
        let text = self.text.trim();
        if text.starts_with("//") {
            return "";
        }
        text.split_once(" // ").map_or(text, |(code, _)| code)
    }
}

#[derive(Debug)]
pub(super) struct Source {
    /// The path relative to the top of the repository.
    pub(super) path: String,
    pub(super) text: String,
    /// The number of the first line of the tests at the end, or of the line after the last.
    tests_from: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let tests_from = if is_test_path(path) {
            1
        } else {
            production_lines(text) + 1
        };
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tests_from,
        }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn is_test_file(&self) -> bool {
        is_test_path(&self.path)
    }

    /// The lines of a page outside of code blocks.
    pub(super) fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut is_code = false;
        self.lines().filter_map(move |line| {
            let is_fence = line.text.trim_start().starts_with(FENCE);
            is_code ^= is_fence;
            (!is_code && !is_fence).then_some((line.number, line.text))
        })
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.text.lines().zip(1..).map(|(text, number)| Line {
            number,
            text,
            is_test: number >= self.tests_from,
        })
    }

    /// The lines before the tests at the end of the file.
    pub(super) fn length(&self) -> usize {
        production_lines(&self.text)
    }
}

/// Every text file that git tracks or would add.
pub(super) fn all(top: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in files(top)? {
        // A binary file has no lines to check.
        if let Ok(text) = String::from_utf8(file::read_bytes(top.join(&path))?) {
            sources.push(Source::new(&path, &text));
        }
    }
    Ok(sources)
}

/// The number of lines before an inline module of tests; a declaration of such a module does not count.
fn production_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(begins).unwrap_or(lines.len())
}

/// The test cluster is a library, so the rules for libraries apply.
fn is_test_path(path: &str) -> bool {
    if path.starts_with("tests/cluster/src/") {
        return false;
    }
    let mut folders = path.split('/').rev();
    let file = folders.next().unwrap_or_default();
    file == "tests.rs" || folders.any(|folder| ["tests", "benches"].contains(&folder))
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    const TEXT: &str =
        "mod a;\n#[cfg(test)]\nmod tests;\nfn b() {}\n\n#[cfg(test)]\nmod more {\n}\n";

    #[test]
    fn tests_begin_where_their_module_is() {
        let source = Source::new("agent/src/a.rs", TEXT);
        assert_eq!(source.length(), 5);
        let is_test: Vec<bool> = source.lines().map(|line| line.is_test).collect();
        assert_eq!(
            is_test,
            [false, false, false, false, false, true, true, true]
        );
    }

    #[test]
    fn files_of_tests_are_tests_from_their_first_line() {
        for path in [
            "agent/core/src/a/tests.rs",
            "agent/core/src/a/tests/scenario.rs",
            "tests/tests/a.rs",
            "tests/benches/quit/main.rs",
        ] {
            let source = Source::new(path, "fn a() {}\n");
            assert!(source.lines().all(|line| line.is_test), "{path}");
        }
        let library = Source::new("tests/cluster/src/image.rs", "fn a() {}\n");
        assert!(!library.lines().any(|line| line.is_test));
    }

    #[test]
    fn comments_are_not_code() {
        let source = Source::new(
            "a.rs",
            "/// setns\nlet a = 1; // setns\nlet b = \"http://c\";\n",
        );
        let code: Vec<&str> = source.lines().map(|line| line.code()).collect();
        assert_eq!(code, ["", "let a = 1;", "let b = \"http://c\";"]);
    }

    #[test]
    fn new_files_count_before_they_are_added() {
        let place = tempfile::tempdir().unwrap();
        let init = Command::new("git")
            .current_dir(&place)
            .args(["init", "--quiet"])
            .status();
        assert!(init.unwrap().success());
        for (file, text) in [(".gitignore", "built"), ("built", ""), ("new.rs", "")] {
            fs::write(place.path().join(file), text).unwrap();
        }
        assert_eq!(files(place.path()).unwrap(), [".gitignore", "new.rs"]);
    }
}
