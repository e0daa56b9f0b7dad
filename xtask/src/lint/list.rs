//! The data of the rules: `kind | cell | cell ...` in each line.

const LIST: &str = include_str!("rules.list");
/// The path relative to the top of the repository.
pub(super) const PATH: &str = "xtask/src/lint/rules.list";

/// The cells of each line of this kind.
pub(super) fn rows<const N: usize>(kind: &str) -> impl Iterator<Item = [&'static str; N]> {
    LIST.lines().filter_map(move |line| {
        let cells = line.strip_prefix(kind)?.strip_prefix(" |")?;
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        cells.try_into().ok()
    })
}

/// The cell of each line of this kind, for lines with one cell.
pub(super) fn first(kind: &str) -> impl Iterator<Item = &'static str> {
    rows(kind).map(|[cell]| cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_cells_of_its_kind() {
        let lines = LIST.lines();
        let count = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let one = ["name", "machine", "registry", "unfinished"];
        let one: usize = one.iter().map(|kind| first(kind).count()).sum();
        let two = rows::<2>("word").count() + rows::<2>("folder").count();
        assert_eq!(one + two + rows::<3>("accepted").count(), count.count());
        for [file, word, reason] in rows("accepted") {
            assert!(rows("word").any(|[listed, _]| listed == word), "{word}");
            assert!(!file.is_empty() && !reason.is_empty());
        }
    }
}
