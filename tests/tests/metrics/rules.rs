use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use crate::names::{is_served, names};
use crate::promtool::{passes, promtool};

const RULES: &str = "deploy/chart/files/rules/usher.yaml";
const TESTS: &str = "tests/prometheus/usher_test.yaml";
/// The page that every `runbook_url` names, with a section for each symptom.
const RUNBOOK: &str = "docs/troubleshooting.md";

#[derive(Debug, Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    record: Option<String>,
    alert: Option<String>,
    expr: String,
    labels: Option<Labels>,
    annotations: Option<Annotations>,
}

#[derive(Debug, Deserialize)]
struct Labels {
    severity: String,
}

#[derive(Debug, Deserialize)]
struct Annotations {
    summary: String,
    description: String,
    runbook_url: String,
}

fn text(path: &str) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(top.join(path)).unwrap()
}

fn rules() -> Vec<Rule> {
    let file: File = serde_saphyr::from_str(&text(RULES)).unwrap();
    file.groups
        .into_iter()
        .flat_map(|group| group.rules)
        .collect()
}

#[test]
fn promtool_accepts_the_rules() {
    if let Some(promtool) = promtool() {
        passes(&promtool, &["check", "rules", "--lint-fatal", RULES], "");
    }
}

#[test]
fn alerts_fire_exactly_when_expected() {
    if let Some(promtool) = promtool() {
        passes(&promtool, &["test", "rules", TESTS], "");
    }
}

#[test]
fn every_alert_has_a_test_and_instructions() {
    let (tests, runbook) = (text(TESTS), text(RUNBOOK));
    let sections: BTreeSet<String> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| title.to_lowercase().replace(' ', "-").replace('\'', ""))
        .collect();
    for rule in rules() {
        let Some(alert) = rule.alert else {
            continue;
        };
        let fires = format!("alertname=\"{alert}\"");
        assert!(tests.contains(&fires), "{alert} never fires in {TESTS}");
        let severity = rule.labels.unwrap().severity;
        assert!(["info", "warning", "critical"].contains(&severity.as_str()));
        let Annotations {
            summary,
            description,
            runbook_url,
        } = rule.annotations.unwrap();
        assert!(summary.ends_with('.') && description.ends_with('.'));
        let (page, anchor) = runbook_url.split_once('#').unwrap();
        assert_eq!(page, RUNBOOK, "{alert}");
        assert!(sections.contains(anchor), "{alert}: no section {anchor}");
    }
}

#[test]
fn rules_use_served_or_recorded_metrics() {
    let rules = rules();
    let recorded: BTreeSet<&str> = rules
        .iter()
        .filter_map(|rule| rule.record.as_deref())
        .collect();
    for rule in &rules {
        for name in names(&rule.expr) {
            let known = is_served(name) || recorded.contains(name);
            assert!(known, "nothing serves {name}: {}", rule.expr);
        }
    }
}
