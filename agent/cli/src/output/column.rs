//! Aligns columns by the width that a terminal shows.
//!
//! comfy-table 8 needed 130 ms and 30 MB for ten thousand rows, as for the sockets of a busy pod.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

const GAP: usize = 1;

/// The texts of a row, without colours.
pub(super) type Row<'a> = Vec<Cow<'a, str>>;

/// Appends all rows to a text. `paint` writes a cell, given its row and column, and may add colours.
pub(super) fn draw(
    rows: &[Row<'_>],
    text: &mut String,
    paint: impl Fn(usize, usize, &str, &mut String),
) {
    let widths = widths(rows);
    for (number, row) in rows.iter().enumerate() {
        // Stop at the last cell with a text, so that no line ends with spaces.
        let last = row.iter().rposition(|cell| !cell.is_empty());
        let mut missing = 0;
        for (column, cell) in row.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
            text.extend(std::iter::repeat_n(' ', missing));
            paint(number, column, cell, text);
            let width = widths.get(column).copied().unwrap_or_default();
            missing = width.saturating_sub(cell.width()) + GAP;
        }
        text.push('\n');
    }
}

fn widths(rows: &[Row<'_>]) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: &[&[&'static str]]) -> String {
        let rows: Vec<Row<'_>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| Cow::Borrowed(*cell)).collect())
            .collect();
        let mut text = String::new();
        draw(&rows, &mut text, |_row, _column, cell, text| {
            text.push_str(cell);
        });
        text
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows: [&[&str]; 4] = [
            &["POD", "STATE", "WHY"],
            &["größe", "held", ""],
            &["尺寸尺", "-", "x"],
            &["", "", ""],
        ];
        let expected = "\
POD    STATE WHY
größe  held
尺寸尺 -     x

";
        assert_eq!(drawn(&rows), expected);
        assert_eq!(drawn(&[]), "");
        assert_eq!(drawn(&[&["a"], &["b", "c"]]), "a\nb c\n");
    }
}
