//! Generates Markdown.

pub(crate) fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A list of code with a word before the last item: `a`, `b` or `c`.
pub(super) fn codes<'text>(texts: impl IntoIterator<Item = &'text str>, word: &str) -> String {
    let codes: Vec<String> = texts.into_iter().map(code).collect();
    listed(&codes, word)
}

/// A list with a word before the last item: a, b or c.
pub(super) fn listed(texts: &[String], word: &str) -> String {
    match texts {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} {word} {last}", rest.join(", ")),
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
        assert_eq!(listed(&[], "or"), "");
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
