//! A file as the rules see it: numbered lines, and for Rust which of them are code and which are tests.

/// One line of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    pub(super) text: &'a str,
    /// Whether only tests have it.
    pub(super) is_test: bool,
}

impl<'a> Line<'a> {
    /// Without a comment to its end.
    pub(super) fn code(&self) -> &'a str {
        let text = self.text.trim();
        if text.starts_with("//") {
            return "";
        }
        text.split_once(" // ").map_or(text, |(code, _)| code)
    }
}

/// A file of the repository.
#[derive(Debug)]
pub(super) struct Source {
    /// From the top of the repository.
    pub(super) path: String,
    text: String,
    /// The number of the first line of the tests at the end, or of the line after the last.
    tests_from: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let count = text.lines().count();
        let tests_from = if is_test_path(path) {
            1
        } else {
            tests_begin(text).unwrap_or(count + 1)
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

    /// Whether it is in a folder at the top of the repository.
    pub(super) fn is_in(&self, folder: &str) -> bool {
        self.path.split('/').next() == Some(folder)
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
        tests_begin(&self.text).map_or_else(|| self.text.lines().count(), |first| first - 1)
    }
}

/// Where a module of tests begins that is in the file itself, not only declared there.
fn tests_begin(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(begins).map(|index| index + 1)
}

/// The test cluster is a library and judged as one.
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
            "agent/core/src/a/tests/scene.rs",
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
}
