//! Metrics, alerts, and the panels of the dashboard.

use anyhow::{Context, Result};
use serde_json::Value;
use usher_cluster::prometheus::Dashboard;
use usher_core::metric::{self, Label, Metric};

use super::markdown::{code, codes, table};
use crate::pictures;

const RULES: &str = include_str!("../../../deploy/chart/files/rules/usher.yaml");
const DASHBOARD: &str = include_str!("../../../deploy/chart/files/dashboards/usher.json");
/// The folder of the pictures, relative to the page.
const IMAGES: &str = "images/metrics";

/// All metrics of an agent.
pub(super) fn reference() -> Result<String> {
    let rows: Vec<_> = metric::all().map(row).collect();
    let head = ["metric", "type", "unit", "labels", "meaning"];
    Ok(table(head, &rows))
}

fn row(metric: &Metric) -> [String; 5] {
    let unit = metric.unit.map_or("", <&str>::from);
    let labels: Vec<String> = metric.labels.iter().map(label).collect();
    [
        code(metric.name),
        metric.kind.into_str().to_owned(),
        unit.to_owned(),
        labels.join("; "),
        metric.meaning.to_owned(),
    ]
}

fn label(label: &Label) -> String {
    let values = codes(label.values.iter().copied(), "or");
    format!("{}: {values}", code(label.key))
}

/// All rules of the chart.
fn rules() -> Result<Vec<Value>> {
    let rules: Value = serde_saphyr::from_str(RULES).context("parse the alert rules")?;
    let groups = rules["groups"].as_array().into_iter().flatten();
    let rules = groups.filter_map(|group| group["rules"].as_array());
    Ok(rules.flatten().cloned().collect())
}

pub(super) fn alerts() -> Result<String> {
    let rows: Vec<_> = rules()?.iter().filter_map(alert).collect();
    let meaning = "what it means and what to do";
    let head = ["alert", "severity", "after", "summary", meaning];
    Ok(table(head, &rows))
}

/// The row of an alert; None for other rules.
fn alert(rule: &Value) -> Option<[String; 5]> {
    let text = |pointer: &str| rule.pointer(pointer).and_then(Value::as_str);
    let wait = text("/for").filter(|wait| *wait != "0s");
    Some([
        code(text("/alert")?),
        text("/labels/severity")?.to_owned(),
        wait.unwrap_or("at once").to_owned(),
        plain(text("/annotations/summary")?),
        plain(text("/annotations/description")?),
    ])
}

/// The text of an alert without Prometheus' templates.
fn plain(text: &str) -> String {
    text.replace("{{ $labels.node }}", "NODE")
        .replace("{{ $labels.instance }}", "INSTANCE")
}

/// The names of recording rules.
pub(super) fn recorded() -> Result<String> {
    let rules = rules()?;
    let names = rules.iter().filter_map(|rule| rule["record"].as_str());
    Ok(codes(names, "and"))
}

/// The panels, each with its picture of a run.
pub(super) fn panels() -> Result<String> {
    let dashboard = Dashboard::parse(DASHBOARD)?;
    let (mut text, mut row) = (String::new(), "");
    for panel in &dashboard.panels {
        if panel.row != row {
            row = &panel.row;
            text.push_str(&format!("### {row}\n\n"));
        }
        let (title, description) = (&panel.title, &panel.description);
        text.push_str(&format!("**{title}.** {description}\n\n"));
        if panel.kind == "timeseries" {
            let file = pictures::file_name(title);
            text.push_str(&format!("![{title}]({IMAGES}/{file})\n\n"));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::workspace::root;

    #[test]
    fn pictures_exist_and_are_shown() {
        let text = panels().unwrap();
        let begin = format!("({IMAGES}/");
        let shown = text.split(&begin).skip(1);
        let shown = shown.filter_map(|rest| rest.split_once(')'));
        let shown: BTreeSet<String> = shown.map(|(file, _)| file.to_owned()).collect();
        let folder = fs::read_dir(root().join("docs").join(IMAGES)).unwrap();
        let files = folder.map(|file| file.unwrap().file_name().display().to_string());
        assert_eq!(shown, files.collect(), "`cargo xtask pictures` makes them");
    }

    #[test]
    fn alerts_have_all_cells() {
        let text = alerts().unwrap();
        assert!(text.contains("| `UsherNotReady` | warning | 10m | The usher agent on NODE"));
        assert!(!text.contains("{{"), "{text}");
        assert!(recorded().unwrap().contains("p99_rate5m"));
    }
}
