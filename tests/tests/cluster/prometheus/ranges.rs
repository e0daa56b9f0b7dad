//! The panels of the dashboard over a run, as data for the plots of the documentation.

use serde_json::{Value, json};
use usher_cluster::prometheus::{Dashboard, Panel, Server, Span};

/// The variables that Grafana would insert for a run of some minutes, scraped every second.
pub(super) const VARIABLES: [(&str, &str); 4] = [
    ("$__rate_interval", "15s"),
    ("$__range", "1h"),
    ("$cluster", ".*"),
    ("$node", ".*"),
];

/// The panels with their series.
pub(super) fn of(server: &Server, dashboard: &Dashboard, span: Span) -> Value {
    let panels = dashboard.panels.iter();
    let panels: Vec<Value> = panels.map(|panel| one(server, panel, span)).collect();
    json!({ "from": span.from, "to": span.to, "panels": panels })
}

fn one(server: &Server, panel: &Panel, span: Span) -> Value {
    let series = panel.queries.iter().flat_map(|query| {
        let found = server.range(&query.with(&VARIABLES), span).unwrap();
        let one = |series: usher_cluster::prometheus::Series| {
            let points = series
                .points
                .iter()
                .filter(|(_at, value)| value.is_finite());
            let points: Vec<_> = points.map(|(at, value)| json!([at, value])).collect();
            json!({ "legend": query.legend(&series.labels), "points": points })
        };
        found.into_iter().map(one).collect::<Vec<_>>()
    });
    let series: Vec<Value> = series.collect();
    let Panel {
        row,
        title,
        description,
        kind,
        unit,
        ..
    } = panel;
    json!({
        "row": row,
        "title": title,
        "description": description,
        "kind": kind,
        "unit": unit,
        "series": series,
    })
}
