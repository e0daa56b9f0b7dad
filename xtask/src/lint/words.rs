//! Words that this repository does not use, and the files that may use them.

use anyhow::{Context, Result, bail};
use usher_cluster::progress::say;

use super::{finding::Finding, source::Source};

/// So many uses outside the exceptions are accepted.
const BUDGET: usize = 3300;
/// The words and the exceptions.
const LIST: &str = include_str!("words.list");
const EXTENSIONS: [&str; 4] = [".rs", ".md", ".yaml", ".txt"];

/// `word | replacement`, or `file | word | reason` for an exception.
struct List<'a> {
    words: Vec<&'a str>,
    exceptions: Vec<(&'a str, &'a str)>,
}

impl<'a> List<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let mut list = Self {
            words: Vec::new(),
            exceptions: Vec::new(),
        };
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells[..] {
                [word, _] => list.words.push(word),
                [file, word, reason] if !reason.is_empty() => list.exceptions.push((file, word)),
                _ => bail!("invalid line {line:?}"),
            }
        }
        Ok(list)
    }

    fn is_exception(&self, path: &str, word: &str) -> bool {
        self.exceptions.contains(&(path, word))
    }

    fn find(&self, source: &Source) -> Vec<(usize, &'a str)> {
        if !EXTENSIONS.iter().any(|end| source.path.ends_with(end)) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for line in source.lines() {
            let text = line.text.to_lowercase();
            for word in &self.words {
                let count = text.matches(word).count();
                if !self.is_exception(&source.path, word) {
                    found.extend(std::iter::repeat_n((line.number, *word), count));
                }
            }
        }
        found
    }
}

/// Prints how many there are in each folder at the top. Each is an error once there are more than the budget.
pub(super) fn check(sources: &[Source]) -> Result<Vec<Finding>> {
    let list = List::parse(LIST).context("xtask/src/lint/words.list")?;
    let mut folders = std::collections::BTreeMap::<&str, usize>::new();
    let mut found = Vec::new();
    for source in sources {
        for (line, word) in list.find(source) {
            let folder = source.path.split('/').next().unwrap_or_default();
            *folders.entry(folder).or_default() += 1;
            let message =
                format!("the word \"{word}\"; xtask/src/lint/words.list has replacements");
            found.push(Finding::error(&source.path, line, "word", message));
        }
    }
    let counts: Vec<String> = folders
        .iter()
        .map(|(folder, count)| format!("{folder} {count}"))
        .collect();
    say(&format!(
        "words to replace: {} (at most {BUDGET}): {}",
        found.len(),
        counts.join(", ")
    ));
    if found.len() <= BUDGET {
        found.clear();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_within_names() {
        let list = List::parse("# a\nfoo bar | baz\nqux | -\na.md | qux | a quotation\n").unwrap();
        let text = "Foo Bar\nis_qux_qux\n";
        let found = list.find(&Source::new("b.md", text));
        assert_eq!(found, [(1, "foo bar"), (2, "qux"), (2, "qux")]);
        assert_eq!(list.find(&Source::new("a.md", text)), [(1, "foo bar")]);
        assert_eq!(list.find(&Source::new("b.json", text)), []);
        assert!(List::parse("a.md | qux |\n").is_err());
    }

    #[test]
    fn exceptions_name_listed_words() {
        let list = List::parse(LIST).unwrap();
        for (file, word) in &list.exceptions {
            assert!(list.words.contains(word), "{file}: {word}");
        }
    }
}
