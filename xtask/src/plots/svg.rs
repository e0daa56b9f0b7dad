//! Pieces of a picture in SVG, readable on light and on dark pages: it brings its own background.

use std::fmt::Write;

/// Colours that people with any kind of sight tell apart.
pub(super) const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b", "#8c564b",
];
pub(super) const INK: &str = "#24292f";
pub(super) const PALE: &str = "#6e7781";
/// The height of all text but titles.
pub(super) const SMALL: f64 = 11.5;
const PAPER: &str = "#fcfcfc";
const LINE: &str = "#d8dee4";
const FONT: &str = "Helvetica, Arial, 'DejaVu Sans', sans-serif";
/// What a letter is wide, in parts of its height, on average and rather more.
const LETTER: f64 = 0.56;

/// A picture.
#[derive(Debug)]
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{title}\" font-family=\"{FONT}\">\n\
             <title>{title}</title>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"{PAPER}\" stroke=\"{LINE}\"/>\n",
            width - 1.0,
            height - 1.0
        ))
    }

    pub(super) fn text(&mut self, at: (f64, f64), style: &Style, text: &str) {
        let Style {
            size,
            colour,
            anchor,
            is_bold,
        } = style;
        let weight = if *is_bold { " font-weight=\"600\"" } else { "" };
        self.add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\"{weight}>{}</text>",
            at.0,
            at.1,
            escaped(text)
        ));
    }

    /// A thin line that things are read off.
    pub(super) fn grid(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{LINE}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points; a point alone is a dot. A broken line lets what it covers be seen.
    pub(super) fn line(&mut self, points: &[(f64, f64)], colour: &str, is_broken: bool) {
        if let [(x, y)] = points {
            self.add(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\"/>"
            ));
            return;
        }
        let mut path = String::new();
        for (x, y) in points {
            let word = if path.is_empty() { 'M' } else { 'L' };
            // Writing to a String cannot fail.
            write!(path, "{word}{x:.1} {y:.1}").ok();
        }
        let dashes = if is_broken {
            " stroke-dasharray=\"7 5\""
        } else {
            ""
        };
        self.add(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"{dashes}/>"
        ));
    }

    /// A line that must not be crossed.
    pub(super) fn mark(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{INK}\" stroke-dasharray=\"3 3\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn swatch(&mut self, at: (f64, f64), colour: &str) {
        self.add(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"3\" rx=\"1.5\" fill=\"{colour}\"/>",
            at.0, at.1
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        writeln!(self.0, "{element}").ok();
    }
}

/// How a text looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) size: f64,
    pub(super) colour: &'static str,
    pub(super) anchor: &'static str,
    pub(super) is_bold: bool,
}

impl Style {
    pub(super) const fn plain(size: f64, colour: &'static str) -> Self {
        Self {
            size,
            colour,
            anchor: "start",
            is_bold: false,
        }
    }

    pub(super) const fn bold(size: f64) -> Self {
        Self {
            is_bold: true,
            ..Self::plain(size, INK)
        }
    }

    pub(super) const fn anchored(self, anchor: &'static str) -> Self {
        Self { anchor, ..self }
    }
}

/// What a text is wide, roughly.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// A text as it is written between elements and in attributes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_end_what_they_are_in() {
        let mut svg = Svg::new(10.0, 10.0, "a \"b\"");
        svg.text((1.0, 1.0), &Style::bold(10.0), "<c> & d");
        let text = svg.finish();
        assert!(text.contains("aria-label=\"a &quot;b&quot;\""), "{text}");
        assert!(text.contains(">&lt;c> &amp; d</text>"), "{text}");
    }
}
