use std::collections::BTreeSet;

use serde_json::json;
use usher_cluster::prometheus::Dashboard;

use crate::names::{is_served, names};
use crate::promtool::{passes, promtool};

const DASHBOARD: &str = include_str!("../../../deploy/chart/files/dashboards/usher.json");
/// The variables in the forms that Grafana inserts.
const VARIABLES: [(&str, &str); 4] = [
    ("$__rate_interval", "2m"),
    ("$__range", "6h"),
    ("$cluster", ".*"),
    ("$node", "node-a|node-b"),
];
const SOURCE: &str = "${datasource}";

fn dashboard() -> Dashboard {
    Dashboard::parse(DASHBOARD).unwrap()
}

#[test]
fn every_panel_has_a_description() {
    let dashboard = dashboard();
    assert_eq!(dashboard.variables, ["datasource", "cluster", "node"]);
    let mut titles = BTreeSet::new();
    for panel in &dashboard.panels {
        let title = &panel.title;
        assert!(titles.insert(title), "two panels {title:?}");
        assert!(panel.description.ends_with('.'), "{title:?}");
        assert!(!panel.unit.is_empty() && !panel.row.is_empty(), "{title:?}");
        assert!(["stat", "table", "timeseries"].contains(&panel.kind.as_str()));
        assert_eq!(panel.source, SOURCE, "{title:?}");
        let mut legends = BTreeSet::new();
        for query in &panel.queries {
            assert_eq!(query.source, SOURCE, "{title:?}");
            assert!(legends.insert(query.pattern()), "{title:?}: same legend");
            let is_named = !query.pattern().is_empty() || panel.queries.len() == 1;
            assert!(is_named, "{title:?}");
        }
        assert!(!panel.queries.is_empty(), "{title:?}");
    }
}

#[test]
fn every_query_selects_nodes_and_uses_served_metrics() {
    for panel in dashboard().panels {
        for query in &panel.queries {
            let expression = query.with(&[]);
            let found = names(&expression);
            assert!(!found.is_empty(), "{expression}");
            for name in found {
                let known = is_served(name);
                assert!(known, "nothing serves {name}: {expression}");
            }
            let selector = "cluster=~\"$cluster\", node=~\"$node\"";
            assert!(expression.contains(selector), "{expression}");
        }
    }
}

#[test]
fn every_query_is_valid() {
    let Some(promtool) = promtool() else {
        return;
    };
    let panels = dashboard().panels;
    let queries = panels.iter().flat_map(|panel| &panel.queries);
    let rules = queries.enumerate().map(|(number, query)| {
        let expression = query.with(&VARIABLES);
        assert!(!expression.contains('$'), "{expression}");
        json!({ "record": format!("query:{number}"), "expr": expression })
    });
    let rules: Vec<_> = rules.collect();
    // JSON is YAML.
    let file = json!({ "groups": [{ "name": "queries", "rules": rules }] });
    let path = std::env::temp_dir().join(format!("usher-queries-{}.yaml", std::process::id()));
    std::fs::write(&path, file.to_string()).unwrap();
    let path_text = path.display().to_string();
    passes(
        &promtool,
        &["check", "rules", "--lint-fatal", &path_text],
        "",
    );
    std::fs::remove_file(&path).unwrap();
}
