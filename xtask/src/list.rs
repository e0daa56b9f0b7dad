//! Lists in files: `kind | cell | cell ...` in each line.

pub(crate) struct List(pub(crate) &'static str);

impl List {
    /// The cells of each line of this kind.
    pub(crate) fn rows<const N: usize>(
        &self,
        kind: &str,
    ) -> impl Iterator<Item = [&'static str; N]> {
        self.0.lines().filter_map(move |line| {
            let cells = line.strip_prefix(kind)?.strip_prefix(" |")?;
            let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
            cells.try_into().ok()
        })
    }

    /// The cell of each line of this kind, for lines with one cell.
    pub(crate) fn cells(&self, kind: &str) -> impl Iterator<Item = &'static str> {
        self.rows(kind).map(|[cell]| cell)
    }
}
