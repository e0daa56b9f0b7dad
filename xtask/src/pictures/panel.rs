//! A dashboard panel over the time of a run.

use anyhow::{Context, Result};
use plotters::prelude::*;
use serde::Deserialize;

use super::style::{
    FONT, LINE_WIDTH, MARGIN, MIB, SIZE, TITLE_SIZE, X_LABELS, Y_LABELS, colour, with_unit,
};

/// Points are not joined if their distance in seconds is larger.
const GAP: f64 = 1.5;
/// With more series than this, those that stay at 0 are omitted.
const MANY: usize = 3;
/// The axis is logarithmic if the highest and the lowest time have at least this ratio.
const LOGARITHMIC: f64 = 20.0;

/// Times are seconds since 1970.
#[derive(Debug, Deserialize)]
pub(super) struct Run {
    from: f64,
    to: f64,
    panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Panel {
    pub(super) title: String,
    kind: String,
    unit: String,
    series: Vec<Series>,
}

#[derive(Debug, Deserialize)]
struct Series {
    legend: String,
    points: Vec<(f64, f64)>,
}

impl Run {
    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).context("read the series of the panels")
    }

    /// The panels with more than a single number.
    pub(super) fn over_time(&self) -> impl Iterator<Item = &Panel> {
        self.panels
            .iter()
            .filter(|panel| panel.kind == "timeseries")
    }
}

impl Panel {
    /// The diagram as SVG.
    pub(super) fn draw(&self, run: &Run) -> Result<String> {
        let shown = self.shown();
        let values = || {
            shown
                .iter()
                .flat_map(|series| &series.points)
                .map(|(_, y)| *y)
        };
        let highest = values().fold(0.0, f64::max);
        let lowest = values().filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
        let is_log = self.unit == "s" && highest / lowest > LOGARITHMIC;
        // The axis has round steps of MiB.
        let step = if self.unit == "bytes" { MIB } else { 1.0 };
        let y = |value: f64| match is_log {
            true => value.max(lowest).log10(),
            false => value / step,
        };
        let range = match is_log {
            true => lowest.log10().floor()..highest.log10().ceil(),
            false if highest > 0.0 => 0.0..highest / step * 1.1,
            false => 0.0..1.0,
        };
        let label = |value: &f64| match is_log {
            true => with_unit(10_f64.powf(*value), &self.unit),
            false => with_unit(*value * step, &self.unit),
        };
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(&self.title, (FONT, TITLE_SIZE))
                .margin(MARGIN)
                .x_label_area_size(X_LABELS)
                .y_label_area_size(Y_LABELS)
                .build_cartesian_2d(0.0..(run.to - run.from).max(1.0), range)?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .y_labels(6)
                .x_label_formatter(&|seconds| clock(*seconds))
                .y_label_formatter(&label)
                .draw()?;
            for (number, series) in shown.iter().enumerate() {
                let style = colour(number).stroke_width(LINE_WIDTH);
                let joined = |one: &(f64, f64), next: &(f64, f64)| next.0 - one.0 <= GAP;
                for (part, points) in series.points.chunk_by(joined).enumerate() {
                    let points = points.iter().map(|(at, value)| (at - run.from, y(*value)));
                    let line = chart.draw_series(LineSeries::new(points, style))?;
                    if part == 0 {
                        line.label(&series.legend)
                            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
                    }
                }
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.8))
                .draw()?;
            area.present()?;
        }
        Ok(svg)
    }

    /// The series to draw: of many series, those that stay at 0 are omitted.
    fn shown(&self) -> Vec<&Series> {
        let is_flat = |series: &Series| series.points.iter().all(|(_, value)| *value == 0.0);
        self.series
            .iter()
            .filter(|series| self.series.len() <= MANY || !is_flat(series))
            .collect()
    }
}

/// Minutes and seconds since the start.
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#"{"from": 1, "to": 9.5, "panels": [
        {"title": "A", "kind": "stat", "unit": "short", "series": []},
        {"title": "B <1>", "kind": "timeseries", "unit": "s", "series": [
            {"legend": "zero", "points": [[1, 0], [2, 0]]}, {"legend": "zero", "points": []},
            {"legend": "x", "points": [[1, 0.001], [2, 0.5], [9, 0.25]]}, {"legend": "zero", "points": []}]}]}"#;

    #[test]
    fn panels_over_time_are_drawn() {
        let run = Run::parse(RUN).unwrap();
        let panels: Vec<_> = run.over_time().collect();
        assert_eq!(panels.len(), 1);
        let svg = panels[0].draw(&run).unwrap();
        for text in ["B &lt;1&gt;", "0:08", "1 ms", "\nx\n"] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        assert!(!svg.contains("zero"), "{svg}");
        assert!(Run::parse("{}").is_err());
    }

    #[test]
    fn series_at_zero_are_left_out_where_there_are_many() {
        let mut run = Run::parse(RUN).unwrap();
        let panel = &mut run.panels[1];
        assert_eq!(panel.shown().len(), 1);
        panel.series.truncate(2);
        assert_eq!(panel.shown().len(), 2);
    }

    #[test]
    fn panel_without_points_is_drawn() {
        let mut run = Run::parse(RUN).unwrap();
        run.panels[1].series.clear();
        let panel = &run.panels[1];
        assert!(panel.draw(&run).unwrap().contains("B &lt;1&gt;"));
    }
}
