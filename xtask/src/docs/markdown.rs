//! Generates Markdown.

use std::collections::BTreeSet;

pub(crate) fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A list of code with a word before the last item: `a`, `b` or `c`.
pub(super) fn codes<'text>(texts: impl IntoIterator<Item = &'text str>, word: &str) -> String {
    listed(texts.into_iter().map(code), word)
}

/// A list with a word before the last item: a, b or c.
pub(super) fn listed(texts: impl IntoIterator<Item = String>, word: &str) -> String {
    let texts: Vec<String> = texts.into_iter().collect();
    match &texts[..] {
        [rest @ .., one, last] => {
            let rest: String = rest.iter().map(|text| format!("{text}, ")).collect();
            format!("{rest}{one} {word} {last}")
        }
        texts => texts.concat(),
    }
}

/// The distinct texts, in their order.
pub(super) fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.filter(|text| seen.insert(text.clone())).collect()
}

/// A text with a note in brackets, if there is one.
pub(super) fn with_note(text: String, note: &str) -> String {
    match note {
        "" => text,
        note => format!("{text} ({note})"),
    }
}

pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    wide_table(&head.map(str::to_owned), rows)
}

/// A table with one column for each cell of its head.
pub(crate) fn wide_table(head: &[String], rows: &[impl AsRef<[String]>]) -> String {
    let row = |cells: &[String]| {
        // A bar ends a cell, even in code.
        let cells = cells.iter().map(|cell| cell.replace('|', "\\|"));
        let cells = cells.map(|cell| if cell.is_empty() { cell } else { cell + " " });
        format!("| {}|\n", cells.collect::<Vec<_>>().join("| "))
    };
    let mut table = row(head);
    table.push_str(&row(&vec!["---".to_owned(); head.len()]));
    table.extend(rows.iter().map(|cells| row(cells.as_ref())));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(codes(["a"], "or"), "`a`");
        assert_eq!(codes(["a", "b", "c"], "or"), "`a`, `b` or `c`");
        assert_eq!(listed([], "or"), "");
    }

    #[test]
    fn tables() {
        let rows = [
            ["1".to_owned(), String::new()],
            ["`a|b`".to_owned(), "2".to_owned()],
        ];
        let expected = "| x | y |\n| --- | --- |\n| 1 | |\n| `a\\|b` | 2 |\n";
        assert_eq!(table(["x", "y"], &rows), expected);
    }
}
