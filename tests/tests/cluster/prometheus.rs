//! A real Prometheus scrapes the running agent while Jobs start and end: every query of the dashboard has data, every
//! recording rule has samples, and the expected alerts fire.

mod load;
mod ranges;

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use usher_cluster::prometheus::{Dashboard, Series, Server, Span};

use crate::lab::{self, Lab, until};

const DASHBOARD: &str = include_str!("../../../deploy/chart/files/dashboards/usher.json");
const RULES: &str = include_str!("../../../deploy/chart/files/rules/usher.yaml");
/// The directory of the data for plots, which also sets the duration of the run: a pipeline needs one round.
const RANGES: &str = "USHER_TEST_RANGES";
const ROUNDS: usize = 8;

/// Alerts that a slow node may give a reason for, and the query of that reason.
const OF_SLOW_NODES: [(&str, &str); 2] = [
    (
        "UsherStartsMissed",
        "usher_decisions_total{decision=\"start-missed\"} > 0",
    ),
    (
        "UsherAnnouncementsUnanswered",
        "usher_cni_announcements_total{result=\"unanswered\"} > 0",
    ),
];

/// The agent's address is on the node's loopback, where the server runs.
const AGENT: &str = "127.0.0.1:9643";

fn config(lab: &Lab, rules: &str) -> Value {
    json!({
        "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
        "rule_files": [rules],
        "scrape_configs": [{
            "job_name": "usher",
            "static_configs": [{ "targets": [AGENT], "labels": { "node": lab.cluster.node_name() } }],
        }],
    })
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs_f64()
}

/// Whether any point of any series is a number.
fn has_data(series: &[Series]) -> bool {
    let mut points = series.iter().flat_map(|one| &one.points);
    points.any(|(_at, value)| value.is_finite())
}

/// The names of the recording rules.
fn recorded() -> impl Iterator<Item = &'static str> {
    let lines = RULES.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix("- record: "))
}

/// Alerts that fired at any moment of a span.
fn fired(server: &Server, span: Span) -> BTreeSet<String> {
    let firing = "ALERTS{alertstate=\"firing\"}";
    let series = server.range(firing, span).unwrap();
    let name = |mut series: Series| series.labels.remove("alertname");
    series.into_iter().filter_map(name).collect()
}

/// Whether the node was too slow, and the alert reports that.
fn is_of_slow_node(server: &Server, alert: &str) -> bool {
    OF_SLOW_NODES
        .iter()
        .filter(|(name, _reason)| *name == alert)
        .any(|(_name, reason)| !server.query(reason, None).unwrap().is_empty())
}

#[test]
fn every_query_of_the_dashboard_has_data() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let wanted = std::env::var_os(RANGES).map(PathBuf::from);
    let dir = lab.cluster.state_dir().join("prometheus");
    // The possible rest of an earlier run.
    fs::remove_dir_all(&dir).ok();
    fs::create_dir_all(&dir).unwrap();
    let rules = dir.join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let config = config(&lab, &rules.display().to_string());
    let server = Server::start(&lab.cluster, &dir, &config).unwrap();
    until("the first scrape", || {
        let up = server.query("usher_ready == 1", None).unwrap();
        (!up.is_empty()).then_some(())
    });
    let from = now();
    load::run(&lab, wanted.as_ref().map_or(1, |_| ROUNDS));
    let dashboard = Dashboard::parse(DASHBOARD).unwrap();
    let span = || Span {
        from,
        to: now(),
        step: 1.0,
    };
    for panel in &dashboard.panels {
        for query in &panel.queries {
            let expression = query.with(&ranges::VARIABLES);
            let what = format!("data of {:?}: {expression}", panel.title);
            until(&what, || {
                has_data(&server.range(&expression, span()).unwrap()).then_some(())
            });
        }
    }
    for name in recorded() {
        until(&format!("samples of {name}"), || {
            has_data(&server.range(name, span()).unwrap()).then_some(())
        });
    }
    let expected = ["UsherHoldsReachDeadline", "UsherSidecarsStay"];
    until("the alert UsherHoldsReachDeadline", || {
        let fired = fired(&server, span());
        let others = fired
            .iter()
            .find(|name| !expected.contains(&name.as_str()) && !is_of_slow_node(&server, name));
        assert_eq!(others, None, "there was no reason for it");
        fired.contains("UsherHoldsReachDeadline").then_some(())
    });
    // It is pending for five minutes.
    until("the alert UsherSidecarsStay", || {
        let alerts = "ALERTS{alertname=\"UsherSidecarsStay\"}";
        has_data(&server.range(alerts, span()).unwrap()).then_some(())
    });
    if let Some(path) = wanted {
        let ranges = ranges::of(&server, &dashboard, span());
        fs::write(path, ranges.to_string()).unwrap();
    }
    drop(server);
    fs::remove_dir_all(&dir).unwrap();
}
