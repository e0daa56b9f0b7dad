//! What the panels showed over a run.

use anyhow::{Context, Result};
use serde_json::Value;

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    /// Seconds since 1970.
    pub(super) from: f64,
    pub(super) to: f64,
    panels: Vec<Panel>,
}

/// One panel.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    kind: String,
    pub(super) unit: String,
    pub(super) series: Vec<Series>,
}

/// One line of it.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) legend: String,
    /// Seconds since 1970, and the value.
    pub(super) points: Vec<(f64, f64)>,
}

impl Series {
    /// Whether there is nothing to see of it.
    pub(super) fn is_flat_zero(&self) -> bool {
        self.points.iter().all(|(_at, value)| *value == 0.0)
    }
}

impl Run {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text).context("it is not JSON")?;
        let panels = json["panels"].as_array().context("it has no panels")?;
        Ok(Self {
            from: json["from"].as_f64().context("it has no beginning")?,
            to: json["to"].as_f64().context("it has no end")?,
            panels: panels.iter().map(panel).collect(),
        })
    }

    /// The panels that show something over time.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.kind != "stat")
    }

    /// The panels that show numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.kind == "stat")
    }
}

fn panel(json: &Value) -> Panel {
    let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    let series = json["series"].as_array().into_iter().flatten();
    Panel {
        title: text("title"),
        kind: text("kind"),
        unit: text("unit"),
        series: series.map(one).collect(),
    }
}

fn one(json: &Value) -> Series {
    let points = json["points"].as_array().into_iter().flatten();
    let point = |point: &Value| Some((point[0].as_f64()?, point[1].as_f64()?));
    Series {
        legend: json["legend"].as_str().unwrap_or_default().to_owned(),
        points: points.filter_map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_are_read() {
        let text = r#"{"from": 1, "to": 9.5, "panels": [
            {"title": "A", "kind": "stat", "unit": "short", "series": []},
            {"title": "B", "kind": "timeseries", "unit": "s",
             "series": [{"legend": "x", "points": [[1, 0], [2, 0.5]]}]}]}"#;
        let run = Run::parse(text).unwrap();
        assert_eq!(run.numbers().count(), 1);
        let panel = run.lines().next().unwrap();
        assert_eq!(panel.series[0].points, [(1.0, 0.0), (2.0, 0.5)]);
        assert!(!panel.series[0].is_flat_zero());
        assert!(Run::parse("{}").is_err());
    }
}
