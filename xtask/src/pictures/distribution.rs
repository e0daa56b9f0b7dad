//! The distribution of measured times: for each time, the share that took at most as long, on a logarithmic axis.

use anyhow::Result;
use plotters::prelude::*;

use super::style::{
    FONT, LINE_WIDTH, MARGIN, SIZE, TITLE_SIZE, X_LABELS, Y_LABELS, colour, with_unit,
};

/// Limit of points; more would look the same.
const POINTS: usize = 150;
/// Times that are shorter, in seconds, are drawn as this time.
const SHORTEST: f64 = 1e-6;
const LABEL_SIZE: i32 = 12;

#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) name: String,
    /// In seconds, sorted.
    pub(crate) sorted: Vec<f64>,
}

/// A budget.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) name: String,
    /// In seconds.
    pub(crate) at: f64,
}

/// The diagram as SVG.
pub(crate) fn draw(title: &str, times: &[Times], bounds: &[Bound]) -> Result<String> {
    let x = |time: f64| time.max(SHORTEST).log10();
    let all = || {
        let times = times.iter().flat_map(|one| one.sorted.iter().copied());
        times.chain(bounds.iter().map(|bound| bound.at)).map(x)
    };
    let first = all().fold(f64::INFINITY, f64::min).floor();
    let last = all().fold(first + 1.0, f64::max).ceil();
    let decades = (last - first) as usize;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, (FONT, TITLE_SIZE))
            .margin(MARGIN)
            .x_label_area_size(X_LABELS)
            .y_label_area_size(Y_LABELS)
            .build_cartesian_2d(first..last, 0.0..1.0)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(decades + 1)
            .y_labels(5)
            .x_label_formatter(&|power| with_unit(10_f64.powf(*power), "s"))
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .draw()?;
        for (number, one) in times.iter().enumerate() {
            let style = colour(number).stroke_width(LINE_WIDTH);
            let points = steps(&one.sorted);
            let points = points.into_iter().map(|(time, share)| (x(time), share));
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(&one.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        for bound in bounds {
            let at = x(bound.at);
            let text = format!("{} {}", bound.name, with_unit(bound.at, "s"));
            let line = PathElement::new([(at, 0.0), (at, 1.0)], BLACK.stroke_width(1));
            chart.draw_series([line])?;
            let label = Text::new(text, (at, 1.0), (FONT, LABEL_SIZE));
            chart.draw_series([label])?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

/// The corners of the line, which rises at each time.
fn steps(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let each = count.div_ceil(POINTS).max(1);
    let mut corners = Vec::new();
    let mut share = 0.0;
    for (number, time) in sorted.iter().enumerate() {
        if number % each == 0 || number + 1 == count {
            corners.push((*time, share));
            share = (number + 1) as f64 / count as f64;
            corners.push((*time, share));
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
        let svg = draw("exit -> request", &[times], &[bound]).unwrap();
        for text in ["p50 1 ms", "agent &lt;1&gt;", "exit -&gt; request", "100 %"] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
    }
}
