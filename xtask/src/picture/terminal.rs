//! A terminal as a picture in SVG. It brings its own background, so it is the same on light and on dark pages.

use std::fmt::Write;

use super::ansi::{Look, Span};
use crate::plots::svg::escaped;

const SIZE: f64 = 13.0;
/// What a letter is wide. Fonts differ; each stretch of text says how wide it is, and is made to fit.
const LETTER: f64 = 7.8;
const LINE: f64 = 18.0;
const MARGIN: f64 = 16.0;
/// The bar with the title.
const BAR: f64 = 30.0;
/// What a picture is wide at least, in letters.
const LEAST: usize = 60;
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const PAPER: &str = "#0d1117";
const BAR_PAPER: &str = "#161b22";
const INK: &str = "#e6edf3";
const FAINT: &str = "#9198a1";
/// The 16 colours, all with enough contrast to the paper.
const COLOURS: [&str; 16] = [
    "#6e7681", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
    "#8b949e", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
];

/// The picture of these lines.
pub(super) fn of(title: &str, lines: &[Vec<Span>]) -> String {
    let widest = lines.iter().map(|line| length(line)).max().unwrap_or(0);
    let width = widest.max(LEAST) as f64 * LETTER + 2.0 * MARGIN;
    let height = BAR + lines.len() as f64 * LINE + 1.5 * MARGIN;
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\" font-family=\"{FONT}\" font-size=\"{SIZE}\">\n\
         <title>{title}</title>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"8\" fill=\"{PAPER}\"/>\n\
         <path d=\"M0 {BAR}V8a8 8 0 0 1 8-8h{:.0}a8 8 0 0 1 8 8v{:.0}z\" fill=\"{BAR_PAPER}\"/>\n",
        width - 16.0,
        BAR - 8.0
    );
    for (at, colour) in [(18, "#ff5f57"), (38, "#febc2e"), (58, "#28c840")] {
        add(
            &mut svg,
            format_args!("<circle cx=\"{at}\" cy=\"15\" r=\"6\" fill=\"{colour}\"/>"),
        );
    }
    for (index, line) in lines.iter().enumerate() {
        let y = BAR + MARGIN + index as f64 * LINE + SIZE - 4.0;
        let mut column = 0;
        for span in line {
            let letters = span.text.chars().count();
            if !span.text.trim().is_empty() {
                text(&mut svg, (column, y), span);
            }
            column += letters;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn text(svg: &mut String, (column, y): (usize, f64), span: &Span) {
    let indent = span.text.len() - span.text.trim_start().len();
    let shown = span.text.trim();
    let x = MARGIN + (column + indent) as f64 * LETTER;
    let width = shown.chars().count() as f64 * LETTER;
    let Look {
        colour,
        is_bold,
        is_faint,
    } = span.look;
    let fill = match colour.and_then(|colour| COLOURS.get(usize::from(colour))) {
        Some(colour) => colour,
        None if is_faint => FAINT,
        None => INK,
    };
    let weight = if is_bold { " font-weight=\"600\"" } else { "" };
    add(
        svg,
        format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
             xml:space=\"preserve\" fill=\"{fill}\"{weight}>{}</text>",
            escaped(shown)
        ),
    );
}

fn length(line: &[Span]) -> usize {
    line.iter().map(|span| span.text.chars().count()).sum()
}

fn add(svg: &mut String, element: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    writeln!(svg, "{element}").ok();
}

#[cfg(test)]
mod tests {
    use super::{super::ansi, *};

    #[test]
    fn every_stretch_has_its_place_and_its_width() {
        let lines = ansi::lines("$ usher <a> & b\n  \u{1b}[1;32mok\u{1b}[0m \u{1b}[2mpale");
        let svg = of("usher \"a\"", &lines);
        assert!(svg.contains("aria-label=\"usher &quot;a&quot;\""), "{svg}");
        assert!(svg.contains(">$ usher &lt;a> &amp; b</text>"), "{svg}");
        assert!(
            svg.contains("x=\"31.6\" y=\"73.0\" textLength=\"15.6\""),
            "two letters after two blanks: {svg}"
        );
        assert!(
            svg.contains("fill=\"#3fb950\" font-weight=\"600\">ok<"),
            "{svg}"
        );
        assert!(svg.contains("fill=\"#9198a1\">pale<"), "{svg}");
    }
}
