//! Prints reports as tables, JSON or YAML. All of them pass here, and control characters from pods are escaped: see
//! `usher_inspect::text::printable`.

mod column;
pub(crate) mod private_file;
mod report;
pub(crate) mod stdout;

use std::{
    borrow::Cow,
    io::{self, IsTerminal},
    time::Duration,
};

use usher_core::admin::{Document, Origin};
use usher_inspect::text::{
    printable::{clean, clean_document, shortened, yaml},
    table::{Cell, Table, Tone},
};

pub(crate) use self::report::{Report, SysdumpReport};
use crate::{
    failure::Failure,
    global::{Colour, Format, Global},
};

/// Characters of a cell that a table shows; JSON and YAML have all of them.
const MAX_CELL: usize = 512;

/// Prints reports in the format of the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    headers: bool,
    colours: bool,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        let colours = match global.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self {
            format: global.output,
            headers: !global.no_headers,
            colours,
        }
    }

    /// Prints a report to standard output.
    pub(crate) fn show<T: Report>(self, from: Origin, report: T) -> Result<(), Failure> {
        let text = self.text(from, report).map_err(|error| {
            Failure::unavailable(format!("cannot serialize the report: {error}"))
        })?;
        stdout::put(&text)
    }

    /// A report as text.
    ///
    /// # Errors
    /// When the report cannot be serialized, which is a bug of usher.
    pub(crate) fn text<T: Report>(self, from: Origin, report: T) -> Result<String, String> {
        match self.format {
            Format::Table => Ok(self.draw(&report.table(false))),
            Format::Wide => Ok(self.draw(&report.table(true))),
            Format::Json => {
                let text = serde_json::to_string_pretty(&Document::new(T::KIND, from, report))
                    .map_err(|error| error.to_string())?;
                Ok(format!("{}\n", clean_document(&text)))
            }
            Format::Yaml => {
                let text = yaml::write(&Document::new(T::KIND, from, report));
                text.map_err(|error| error.to_string())
            }
        }
    }

    /// Prints one line, for output that grows over time.
    pub(crate) fn line(self, cell: &Cell) -> Result<(), Failure> {
        stdout::put(&format!("{}\n", self.paint(cell)))
    }

    fn draw(self, table: &Table) -> String {
        let mut text = String::new();
        for line in &table.lead {
            text.push_str(&self.paint(line));
            text.push('\n');
        }
        if !table.rows.is_empty() {
            text.push_str(&self.rows(table));
        }
        for line in &table.notes {
            text.push_str(&self.paint(line));
            text.push('\n');
        }
        text
    }

    fn rows(self, table: &Table) -> String {
        let skipped = usize::from(self.headers);
        let mut rows = Vec::with_capacity(table.rows.len() + skipped);
        if self.headers {
            rows.push(
                table
                    .columns
                    .iter()
                    .map(|name| Cow::Borrowed(*name))
                    .collect(),
            );
        }
        rows.extend(table.rows.iter().map(|row| row.iter().map(plain).collect()));
        let mut text = String::new();
        column::draw(&rows, &mut text, |number, column, shown, text| {
            let row = number
                .checked_sub(skipped)
                .and_then(|row| table.rows.get(row));
            match row.and_then(|row| row.get(column)) {
                Some(cell) => self.tint(shown, cell.tone, text),
                None => text.push_str(shown),
            }
        });
        text
    }

    pub(crate) fn paint(self, cell: &Cell) -> String {
        let mut text = String::new();
        self.tint(&plain(cell), cell.tone, &mut text);
        text
    }

    fn tint(self, shown: &str, tone: Tone, text: &mut String) {
        let code = match tone {
            Tone::Plain => None,
            Tone::Good => Some("32"),
            Tone::Warn => Some("33"),
            Tone::Bad => Some("31"),
            Tone::Faint => Some("2"),
            Tone::Strong => Some("1"),
        };
        match code.filter(|_code| self.colours) {
            Some(code) => text.extend(["\x1b[", code, "m", shown, "\x1b[0m"]),
            None => text.push_str(shown),
        }
    }
}

/// The printable text of a cell, copied only if something must be escaped or shortened.
fn plain(cell: &Cell) -> Cow<'_, str> {
    // Fast path for nearly every cell: a report may have ten thousand rows.
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
    if cell.text.len() <= MAX_CELL && cell.text.bytes().all(is_printable) {
        return Cow::Borrowed(&cell.text);
    }
    match clean(&cell.text) {
        Cow::Borrowed(text) => shortened(text, MAX_CELL),
        Cow::Owned(text) => Cow::Owned(shortened(&text, MAX_CELL).into_owned()),
    }
}

/// A duration in whole seconds and at most two units, such as `2h 5m`.
pub(crate) fn duration_text(ms: u64) -> String {
    let whole = Duration::from_secs(ms / 1000);
    let text = humantime::format_duration(whole).to_string();
    let words: Vec<&str> = text.split(' ').take(2).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(headers: bool, colours: bool) -> Output {
        Output {
            format: Format::Table,
            headers,
            colours,
        }
    }

    fn table() -> Table {
        let mut table = Table::new(["POD", "STATE"]);
        table.lead("two pods");
        table.row(["shop/\x1b[2J".into(), Cell::new("held", Tone::Warn)]);
        table.row(["a".into(), Cell::or_dash(None::<String>)]);
        table.note(Cell::new("that is all", Tone::Good));
        table
    }

    #[test]
    fn columns_are_aligned_and_control_characters_escaped() {
        let text = output(true, false).draw(&table());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "two pods");
        let at = lines[1].find("STATE").unwrap();
        assert_eq!(lines[2].find("held"), Some(at), "{text}");
        assert_eq!(lines[3].find('-'), Some(at), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
        assert_eq!(lines[4], "that is all");
    }

    #[test]
    fn headers_are_optional_and_colours_applied() {
        let text = output(false, true).draw(&table());
        assert!(!text.contains("STATE"));
        assert!(text.contains("\x1b[33mheld\x1b[0m"), "{text}");
        assert!(text.contains("\x1b[32mthat is all\x1b[0m"), "{text}");
        assert_eq!(text.matches('\x1b').count(), 6, "{text:?}");
    }
}
