//! How many of some times were at most how long: a line for each kind, the times on a scale of powers.

use super::{
    axis::{Axis, written},
    legend::Legend,
    svg::{COLOURS, INK, PALE, SMALL, Style, Svg, width},
};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 22.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 250.0;
const LEGEND: f64 = 44.0;
/// Parts of all times that are marked.
const PARTS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// More points than this are not told apart.
const POINTS: usize = 150;
/// Shorter times than this, in seconds, are drawn as if they were as long.
const SHORTEST: f64 = 1e-6;

/// Times of one kind.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) name: String,
    /// In seconds, sorted.
    pub(crate) sorted: Vec<f64>,
}

/// A time that is not to be exceeded, in seconds, and by what.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) at: f64,
}

/// The picture. Kinds without times are not in it.
pub(crate) fn of(title: &str, times: &[Times], bounds: &[Bound]) -> String {
    let legend = Legend::of(times.iter().map(|one| one.name.clone()), None, RIGHT - LEFT);
    let height = BOTTOM + LEGEND + legend.height() + 16.0;
    let mut svg = Svg::new(WIDTH, height, title);
    svg.text((16.0, 26.0), &Style::bold(15.0), title);
    let ends = times
        .iter()
        .flat_map(|one| [one.sorted.first(), one.sorted.last()]);
    let all = ends
        .flatten()
        .copied()
        .chain(bounds.iter().map(|bound| bound.at));
    let axis = Axis::powers(all.map(|time| time.max(SHORTEST)));
    let x = |time: f64| LEFT + axis.place(time.max(SHORTEST)) * (RIGHT - LEFT);
    let y = |part: f64| BOTTOM - part * (BOTTOM - TOP);
    let beside = Style::plain(SMALL, PALE).anchored("end");
    for part in PARTS {
        svg.grid((LEFT, y(part)), (RIGHT, y(part)));
        let text = format!("{} %", part * 100.0);
        svg.text((LEFT - 8.0, y(part) + 4.0), &beside, &text);
    }
    let below = Style::plain(SMALL, PALE).anchored("middle");
    for tick in &axis.ticks {
        svg.grid((x(*tick), TOP), (x(*tick), BOTTOM + 4.0));
        svg.text((x(*tick), BOTTOM + 18.0), &below, &written(*tick, "s"));
    }
    for (number, one) in times.iter().enumerate() {
        let points: Vec<_> = steps(&one.sorted)
            .into_iter()
            .map(|(time, part)| (x(time), y(part)))
            .collect();
        svg.line(&points, COLOURS[number % COLOURS.len()], number % 2 == 1);
    }
    for bound in bounds {
        svg.mark((x(bound.at), TOP - 8.0), (x(bound.at), BOTTOM));
        let text = format!("{} {}", bound.name, written(bound.at, "s"));
        // To the left of its line, where there is no place to the right.
        let fits = x(bound.at) + width(&text, SMALL) < RIGHT;
        let style = Style::plain(SMALL, INK).anchored(if fits { "start" } else { "end" });
        svg.text((x(bound.at), TOP - 13.0), &style, &text);
    }
    legend.draw(&mut svg, (LEFT, BOTTOM + LEGEND));
    svg.finish()
}

/// Corners of the line: at each time some more are done.
fn steps(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let each = count.div_ceil(POINTS).max(1);
    let mut corners = Vec::new();
    let mut part = 0.0;
    for (number, time) in sorted.iter().enumerate() {
        let is_last = number + 1 == count;
        if number % each == 0 || is_last {
            corners.push((*time, part));
            part = (number + 1) as f64 / count as f64;
            corners.push((*time, part));
        }
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_goes_from_nothing_to_all() {
        assert_eq!(
            steps(&[1.0, 2.0]),
            [(1.0, 0.0), (1.0, 0.5), (2.0, 0.5), (2.0, 1.0)]
        );
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        let corners = steps(&many);
        assert!(corners.len() <= 2 * POINTS + 2, "{}", corners.len());
        assert_eq!(corners.last(), Some(&(999.0, 1.0)));
    }

    #[test]
    fn budgets_are_in_the_picture() {
        let times = Times {
            name: "agent <1>".to_owned(),
            sorted: vec![0.0001, 0.0002],
        };
        let bound = Bound {
            name: "p50".to_owned(),
            at: 0.001,
        };
        let svg = of("exit -> request", &[times], &[bound]);
        assert!(
            svg.contains(">p50 1 ms<") && svg.contains("agent &lt;1>"),
            "{svg}"
        );
        assert!(svg.contains("<title>exit -> request</title>"), "{svg}");
    }
}
