//! Metrics, alerts, and the panels of the dashboard.

use serde::Deserialize;
use usher_cluster::prometheus::Dashboard;
use usher_core::metric::{self, Label, Metric};

use super::markdown::{code, codes, table};
use crate::pictures;

const RULES: &str = include_str!("../../../deploy/chart/files/rules/usher.yaml");
const DASHBOARD: &str = include_str!("../../../deploy/chart/files/dashboards/usher.json");
/// Where the page finds the pictures.
const IMAGES: &str = "images/metrics";

/// The reference: what a running agent serves, all of it.
pub(super) fn reference() -> String {
    let rows: Vec<_> = metric::all().map(row).collect();
    table(["metric", "type", "unit", "labels", "meaning"], &rows)
}

fn row(metric: &Metric) -> [String; 5] {
    let unit = metric.unit.map_or("", metric::Unit::as_str);
    let labels: Vec<String> = metric.labels.iter().map(label).collect();
    [
        code(metric.name),
        metric.kind.as_str().to_owned(),
        unit.to_owned(),
        labels.join("; "),
        metric.meaning.to_owned(),
    ]
}

fn label(label: &Label) -> String {
    let values = codes(label.values.iter().copied(), "or");
    format!("{}: {values}", code(label.key))
}

#[derive(Debug, Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    #[serde(default)]
    alert: String,
    #[serde(default)]
    record: String,
    #[serde(default, rename = "for")]
    wait: String,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Debug, Default, Deserialize)]
struct Labels {
    severity: String,
}

#[derive(Debug, Default, Deserialize)]
struct Annotations {
    summary: String,
    description: String,
}

fn rules() -> Result<Vec<Rule>, String> {
    let rules: Rules = serde_saphyr::from_str(RULES).map_err(|error| error.to_string())?;
    let groups = rules.groups.into_iter();
    Ok(groups.flat_map(|group| group.rules).collect())
}

/// What the alerts say; an error stands in the page, which lint then refuses.
pub(super) fn alerts() -> String {
    let rules = match rules() {
        Ok(rules) => rules,
        Err(error) => return error,
    };
    let alerts = rules.iter().filter(|rule| !rule.alert.is_empty());
    let rows: Vec<_> = alerts.map(alert).collect();
    table(
        [
            "alert",
            "severity",
            "after",
            "says",
            "what it means and what to do",
        ],
        &rows,
    )
}

fn alert(rule: &Rule) -> [String; 5] {
    let Annotations {
        summary,
        description,
    } = &rule.annotations;
    let wait = if rule.wait == "0s" {
        "at once"
    } else {
        &rule.wait
    };
    [
        code(&rule.alert),
        rule.labels.severity.clone(),
        wait.to_owned(),
        said(summary),
        said(description),
    ]
}

/// A text of an alert, without Prometheus' own braces.
fn said(text: &str) -> String {
    text.replace("{{ $labels.node }}", "NODE")
        .replace("{{ $labels.instance }}", "INSTANCE")
}

/// The names that recording rules give.
pub(super) fn recorded() -> String {
    let rules = match rules() {
        Ok(rules) => rules,
        Err(error) => return error,
    };
    let records = rules.iter().map(|rule| rule.record.as_str());
    codes(records.filter(|record| !record.is_empty()), "and")
}

/// The panels, with what they showed in a run.
pub(super) fn panels() -> String {
    let dashboard = match Dashboard::parse(DASHBOARD) {
        Ok(dashboard) => dashboard,
        Err(error) => return error.to_string(),
    };
    let (mut text, mut row) = (String::new(), "");
    for panel in &dashboard.panels {
        if panel.row != row {
            row = &panel.row;
            text.push_str(&format!("### {row}\n\n"));
        }
        let (title, description) = (&panel.title, &panel.description);
        text.push_str(&format!("**{title}.** {description}\n\n"));
        if panel.kind != "stat" {
            let file = pictures::file_name(title);
            text.push_str(&format!("![{title}]({IMAGES}/{file})\n\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::workspace::root;

    #[test]
    fn every_picture_is_there_and_shown() {
        let text = panels();
        let begin = format!("({IMAGES}/");
        let shown = text.split(&begin).skip(1);
        let shown = shown.filter_map(|rest| rest.split_once(')'));
        let shown: BTreeSet<String> = shown.map(|(file, _)| file.to_owned()).collect();
        let folder = fs::read_dir(root().join("docs").join(IMAGES)).unwrap();
        let files = folder.map(|file| file.unwrap().file_name().display().to_string());
        assert_eq!(shown, files.collect(), "`cargo xtask pictures` makes them");
    }

    #[test]
    fn alerts_have_all_that_a_row_needs() {
        let text = alerts();
        assert!(text.contains("| `UsherNotReady` | warning | 10m | The agent of usher on NODE"));
        assert!(!text.contains("{{"), "{text}");
        assert!(recorded().contains("p99_rate5m"));
    }
}
