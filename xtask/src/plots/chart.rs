//! A panel over time: title, axes, lines, legend.

use super::{
    axis::{Axis, unit, written},
    data::{Panel, Run, Series},
    legend::Legend,
    svg::{COLOURS, PALE, SMALL, Style, Svg},
};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 18.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 230.0;
/// From the lines' end to the legend.
const LEGEND: f64 = 44.0;
/// Points further apart than this, in seconds, are not joined.
const GAP: f64 = 1.5;
/// Beyond so many lines those that stay at 0 are left out.
const MANY: usize = 3;
const TICKS: f64 = 6.0;

/// The picture.
pub(super) fn of(run: &Run, panel: &Panel) -> String {
    let (shown, left_out) = shown(&panel.series);
    let legend = legend(&shown, left_out);
    let height = BOTTOM + LEGEND + legend.height() + 16.0;
    let mut svg = Svg::new(WIDTH, height, &panel.title);
    svg.text((16.0, 26.0), &Style::bold(15.0), &panel.title);
    let beside = Style::plain(SMALL, PALE).anchored("end");
    svg.text((RIGHT, 26.0), &beside, unit(&panel.unit));
    let values = shown
        .iter()
        .flat_map(|series| series.points.iter().map(|(_at, value)| *value));
    let axis = Axis::of(values, &panel.unit);
    let y = |value: f64| BOTTOM - axis.place(value) * (BOTTOM - TOP);
    let label = Style::plain(SMALL, PALE).anchored("end");
    for tick in &axis.ticks {
        svg.grid((LEFT, y(*tick)), (RIGHT, y(*tick)));
        let text = written(*tick, &panel.unit);
        svg.text((LEFT - 8.0, y(*tick) + 4.0), &label, &text);
    }
    let length = (run.to - run.from).max(1.0);
    let x = |at: f64| LEFT + (at - run.from) / length * (RIGHT - LEFT);
    let below = Style::plain(SMALL, PALE).anchored("middle");
    for seconds in times(length) {
        let at = x(run.from + seconds);
        svg.grid((at, BOTTOM), (at, BOTTOM + 4.0));
        svg.text((at, BOTTOM + 18.0), &below, &clock(seconds));
    }
    for (number, series) in shown.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let joined = |one: &(f64, f64), next: &(f64, f64)| next.0 - one.0 <= GAP;
        for points in series.points.chunk_by(joined) {
            let points = if counts_things(series) {
                steps(points)
            } else {
                points.to_vec()
            };
            let place = |(at, value): (f64, f64)| (x(at), y(value));
            let points: Vec<_> = points.into_iter().map(place).collect();
            svg.line(&points, colour, number % 2 == 1);
        }
    }
    legend.draw(&mut svg, (LEFT, BOTTOM + LEGEND));
    svg.finish()
}

/// Whether every value is a number of things, which changes at once.
fn counts_things(series: &Series) -> bool {
    series
        .points
        .iter()
        .all(|(_at, value)| value.fract() == 0.0)
}

/// Each value until the next one.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let corners = points
        .windows(2)
        .flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(points.last().copied()).collect()
}

/// The lines that are worth drawing, and how many are not.
fn shown(series: &[Series]) -> (Vec<&Series>, usize) {
    let moving: Vec<&Series> = series.iter().filter(|one| !one.is_flat_zero()).collect();
    if series.len() <= MANY {
        return (series.iter().collect(), 0);
    }
    let left_out = series.len() - moving.len();
    (moving, left_out)
}

fn legend(shown: &[&Series], left_out: usize) -> Legend {
    let which = if shown.is_empty() {
        "lines, which all"
    } else {
        "more"
    };
    let rest = (left_out > 0).then(|| format!("({left_out} {which} stay at 0)"));
    let names = shown.iter().map(|series| series.legend.clone());
    Legend::of(names, rest, RIGHT - LEFT)
}

/// Moments that are marked: some six of them, at even times.
fn times(length: f64) -> impl Iterator<Item = f64> {
    let steps = [5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0];
    let step = steps.into_iter().find(|step| length / step <= TICKS);
    let step = step.unwrap_or(length / TICKS);
    // At most seven.
    let count = (length / step) as u32;
    (0..=count).map(move |number| f64::from(number) * step)
}

/// Minutes and seconds since the beginning.
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(legend: &str, values: &[f64]) -> Series {
        let points = (1_u32..).map(f64::from).zip(values.iter().copied());
        Series {
            legend: legend.to_owned(),
            points: points.collect(),
        }
    }

    #[test]
    fn lines_at_nothing_are_left_out_where_there_are_many() {
        let zero = || series("zero", &[0.0, 0.0]);
        let one = || series("one", &[0.0, 1.0]);
        let few = [zero(), one()];
        assert_eq!(shown(&few).0.len(), 2);
        let many = [zero(), one(), zero(), zero()];
        let (drawn, left_out) = shown(&many);
        assert_eq!((drawn.len(), left_out), (1, 3));
        let flat = [zero(), zero(), zero(), zero()];
        assert_eq!(shown(&flat).1, 4);
    }

    #[test]
    fn moments_are_marked_at_even_times() {
        let marks: Vec<_> = times(185.0).map(clock).collect();
        assert_eq!(marks, ["0:00", "1:00", "2:00", "3:00"]);
    }
}
