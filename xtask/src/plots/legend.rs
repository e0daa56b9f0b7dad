//! Which line is which.

use super::svg::{COLOURS, INK, PALE, SMALL, Style, Svg, width};

/// From each line of the legend to the next.
const LINE: f64 = 19.0;

/// The names of a picture's lines.
#[derive(Debug)]
pub(super) struct Legend(Vec<Entry>);

/// One of them, and where it is.
#[derive(Debug)]
struct Entry {
    x: f64,
    y: f64,
    colour: Option<&'static str>,
    text: String,
}

impl Legend {
    /// Of lines in the order of their colours, and something else to say; so wide at most.
    pub(super) fn of(names: impl Iterator<Item = String>, rest: Option<String>, most: f64) -> Self {
        let named = names.zip(COLOURS.into_iter().cycle());
        let named = named.map(|(name, colour)| (Some(colour), name));
        let (mut x, mut y) = (0.0, 0.0);
        let mut entries = Vec::new();
        for (colour, text) in named.chain(rest.map(|rest| (None, rest))) {
            let wide = width(&text, SMALL) + 36.0;
            if x > 0.0 && x + wide > most {
                (x, y) = (0.0, y + LINE);
            }
            entries.push(Entry { x, y, colour, text });
            x += wide;
        }
        Self(entries)
    }

    /// From its first line to its last.
    pub(super) fn height(&self) -> f64 {
        self.0.last().map_or(0.0, |entry| entry.y)
    }

    pub(super) fn draw(&self, svg: &mut Svg, corner: (f64, f64)) {
        let named = Style::plain(SMALL, INK);
        for entry in &self.0 {
            let at = (corner.0 + entry.x, corner.1 + entry.y);
            match entry.colour {
                Some(colour) => {
                    svg.swatch((at.0, at.1 - 5.5), colour);
                    svg.text((at.0 + 20.0, at.1), &named, &entry.text);
                }
                None => svg.text(at, &Style::plain(SMALL, PALE), &entry.text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legend_goes_on_in_the_next_line() {
        let long = || "long ".repeat(10);
        let names = [long(), long(), long()];
        let legend = Legend::of(names.into_iter(), Some("2 more".to_owned()), 560.0);
        let entries = &legend.0;
        assert!(entries[1].x.abs() < 1e-9 && entries[1].y > 0.0);
        assert!(entries[3].text.contains("2 more") && entries[3].colour.is_none());
        assert!(legend.height() >= entries[2].y);
    }
}
