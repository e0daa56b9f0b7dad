//! A table as data, independent of how it is printed.

/// The output of a command: lines, a table, lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub lead: Vec<Cell>,
    /// Names of the columns, in capitals.
    pub columns: Vec<&'static str>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    pub notes: Vec<Cell>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// The unescaped text; the output escapes it.
    pub text: String,
    /// Printed as a colour, if colours are on: the text must be sufficient without it.
    pub tone: Tone,
}

/// The meaning of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
    /// Less important than the rest.
    Faint,
    Strong,
}

impl Table {
    pub fn new(columns: impl Into<Vec<&'static str>>) -> Self {
        Self {
            columns: columns.into(),
            ..Self::default()
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line before the table.
    pub fn lead(&mut self, line: impl Into<Cell>) {
        self.lead.push(line.into());
    }

    /// Adds a line after the table.
    pub fn note(&mut self, line: impl Into<Cell>) {
        self.notes.push(line.into());
    }
}

impl Cell {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self { text, tone }
    }

    /// A text, or a dash if it is missing.
    pub fn or_dash(text: Option<impl Into<String>>) -> Self {
        text.map_or_else(
            || Self::new("-", Tone::Faint),
            |text| Self::from(text.into()),
        )
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_rows_keep_their_order() {
        let plain = |text: &str| Cell::new(text, Tone::Plain);
        let mut table = Table::new(["NAME", "REASON"]);
        table.lead("before");
        table.row(["a".into(), Cell::or_dash(Some("why"))]);
        table.row(["b".to_owned().into(), Cell::or_dash(None::<&str>)]);
        table.note(Cell::new("after", Tone::Warn));
        let expected = Table {
            lead: vec![plain("before")],
            columns: vec!["NAME", "REASON"],
            rows: vec![
                vec![plain("a"), plain("why")],
                vec![plain("b"), Cell::new("-", Tone::Faint)],
            ],
            notes: vec![Cell::new("after", Tone::Warn)],
        };
        assert_eq!(table, expected);
        assert_eq!(plain("a").text, "a");
    }
}
