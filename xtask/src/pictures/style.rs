//! Size, colours and units of diagrams.

use plotters::style::RGBColor;

pub(super) const SIZE: (u32, u32) = (640, 320);
pub(super) const FONT: &str = "sans-serif";
pub(super) const TITLE_SIZE: i32 = 16;
pub(super) const MARGIN: i32 = 12;
/// Space between the diagram and the edge for the labels of an axis.
pub(super) const X_LABELS: i32 = 30;
pub(super) const Y_LABELS: i32 = 64;
pub(super) const LINE_WIDTH: u32 = 2;
/// Colours that people with colour blindness can distinguish (Okabe and Ito).
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

pub(super) const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

pub(super) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        _ if value == 0.0 => "0".to_owned(),
        "s" if value < 0.001 => format!("{} µs", short(value * 1e6)),
        "s" if value < 1.0 => format!("{} ms", short(value * 1e3)),
        "s" => format!("{} s", short(value)),
        "bytes" => format!("{} MiB", short(value / MIB)),
        _ => short(value),
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_unit_of_their_size() {
        for (value, unit, text) in [
            (0.0, "s", "0"),
            (0.0005, "s", "500 µs"),
            (0.25, "s", "250 ms"),
            (10.0, "s", "10 s"),
            (1_572_864.0, "bytes", "1.5 MiB"),
            (7.0, "short", "7"),
        ] {
            assert_eq!(with_unit(value, unit), text);
        }
    }
}
