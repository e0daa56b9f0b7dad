//! A table as data: what a command found, before anybody decides how it is drawn.

/// What a command shows: lines, a table, lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Lines before the table.
    pub lead: Vec<Cell>,
    /// Names of the columns, in capitals.
    pub columns: Vec<&'static str>,
    /// Its rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Lines after the table.
    pub notes: Vec<Cell>,
}

/// A text and what is to be thought of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// As it came: who draws it makes it clean.
    pub text: String,
    /// Shown as a colour where there are any, so never the only sign of anything.
    pub tone: Tone,
}

/// What is to be thought of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    #[default]
    Plain,
    /// It is as it should be.
    Good,
    /// Somebody should look at it.
    Warn,
    /// It is wrong.
    Bad,
    /// It matters less than the rest.
    Faint,
    /// It is a heading.
    Strong,
}

impl Table {
    /// An empty one.
    pub fn new(columns: impl Into<Vec<&'static str>>) -> Self {
        Self {
            columns: columns.into(),
            ..Self::default()
        }
    }

    /// Adds a row.
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
    /// A text with a tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self { text, tone }
    }

    /// A text that may be missing.
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
    fn what_is_put_in_stands_in_its_place() {
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
