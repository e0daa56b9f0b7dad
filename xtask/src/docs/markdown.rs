//! Generates Markdown.

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

pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let row = |cells: &[String; N]| {
        // A bar ends a cell, even in code.
        let cells = cells.iter().map(|cell| cell.replace('|', "\\|"));
        let cells = cells.map(|cell| if cell.is_empty() { cell } else { cell + " " });
        format!("| {}|\n", cells.collect::<Vec<_>>().join("| "))
    };
    let head = [head.map(str::to_owned), ["---"; N].map(str::to_owned)];
    head.iter().chain(rows).map(row).collect()
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
