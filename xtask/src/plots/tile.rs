//! The panels that show numbers, side by side in one picture.

use super::{
    axis::written,
    data::Panel,
    svg::{INK, PALE, Style, Svg},
};

const WIDTH: f64 = 640.0;
const COLUMNS: usize = 3;
const TILE: f64 = WIDTH / COLUMNS as f64;
const ROW: f64 = 86.0;
const LARGE: f64 = 26.0;

/// The picture: of each panel its last numbers.
pub(super) fn of(panels: &[&Panel]) -> String {
    let rows = panels.len().div_ceil(COLUMNS);
    let mut svg = Svg::new(WIDTH, rows as f64 * ROW + 12.0, "Overview");
    for (number, panel) in panels.iter().enumerate() {
        let left = (number % COLUMNS) as f64 * TILE + 18.0;
        let top = (number / COLUMNS) as f64 * ROW;
        svg.text((left, top + 30.0), &Style::plain(12.5, PALE), &panel.title);
        let wide = (TILE - 18.0) / panel.series.len().max(1) as f64;
        for (place, series) in panel.series.iter().enumerate() {
            let left = left + place as f64 * wide;
            let last = series.points.last().map_or(0.0, |(_at, value)| *value);
            let large = Style {
                colour: INK,
                ..Style::bold(LARGE)
            };
            let number = written(last.round(), &panel.unit);
            svg.text((left, top + 62.0), &large, &number);
            let beside = left + number.len() as f64 * LARGE * 0.6 + 6.0;
            let plain = Style::plain(11.5, PALE);
            svg.text((beside, top + 62.0), &plain, &series.legend);
        }
    }
    svg.finish()
}
