//! Finds words that this repository does not use, except in the listed files.

use std::{collections::BTreeMap, iter::repeat_n};

use usher_cluster::progress::say;

use super::{finding::Finding, list, source::Source};

/// Number of accepted uses, in addition to the listed exceptions.
const BUDGET: usize = 60;
const EXTENSIONS: [&str; 4] = [".rs", ".md", ".yaml", ".txt"];

/// Prints the number of uses in each top-level folder. Beyond the budget, each use is an error.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut folders = BTreeMap::<&str, usize>::new();
    let mut found = Vec::new();
    for source in sources {
        for (line, word) in find(source) {
            let folder = source.path.split('/').next().unwrap_or_default();
            *folders.entry(folder).or_default() += 1;
            let message = format!("the word \"{word}\"; {} has replacements", list::PATH);
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
    found
}

/// The words in a file, in any case and also within other words.
fn find(source: &Source) -> Vec<(usize, &'static str)> {
    let is_accepted = |word: &str| {
        list::rows("accepted").any(|[file, accepted, _]| file == source.path && accepted == word)
    };
    if !EXTENSIONS.iter().any(|end| source.path.ends_with(end)) {
        return Vec::new();
    }
    let words: Vec<&str> = list::rows("word")
        .map(|[word, _]| word)
        .filter(|word| !is_accepted(word))
        .collect();
    let mut found = Vec::new();
    for line in source.lines() {
        let text = line.text.to_lowercase();
        for word in &words {
            found.extend(repeat_n((line.number, *word), text.matches(word).count()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_within_names() {
        let [two, one] = [concat!("In ", "vain"), concat!("to", "ld")];
        let text = format!("{two} a\nis_{one}_{one}\n");
        let found = find(&Source::new("b.md", &text));
        assert_eq!(found, [(1, concat!("in ", "vain")), (2, one), (2, one)]);
        assert_eq!(find(&Source::new("b.json", &text)), []);
    }
}
