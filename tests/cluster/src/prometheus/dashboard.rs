//! The panels and queries of a Grafana dashboard of the classic model.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Dashboard {
    pub panels: Vec<Panel>,
    pub variables: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Panel {
    /// Its row.
    pub row: String,
    pub title: String,
    pub description: String,
    /// `stat`, `table` or `timeseries`.
    pub kind: String,
    /// Grafana's name of the unit.
    pub unit: String,
    /// The identifier of its data source.
    pub source: String,
    pub queries: Vec<Query>,
}

#[derive(Debug, Clone)]
pub struct Query {
    pub expression: String,
    legend: String,
    /// The identifier of its data source.
    pub source: String,
}

impl Dashboard {
    pub fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text).context("the dashboard is not JSON")?;
        let mut row = String::new();
        let mut panels = Vec::new();
        for panel in json["panels"].as_array().context("no panels")? {
            let title = string(&panel["title"]);
            if panel["type"] == "row" {
                row = title;
                continue;
            }
            let targets = panel["targets"].as_array();
            let targets = targets.with_context(|| format!("{title:?} has no targets"))?;
            panels.push(Panel {
                row: row.clone(),
                description: string(&panel["description"]),
                kind: string(&panel["type"]),
                unit: string(&panel["fieldConfig"]["defaults"]["unit"]),
                source: string(&panel["datasource"]["uid"]),
                queries: targets.iter().map(query).collect(),
                title,
            });
        }
        ensure!(!panels.is_empty(), "no panel asks anything");
        let variables = json["templating"]["list"].as_array();
        let variables = variables.into_iter().flatten();
        Ok(Self {
            panels,
            variables: variables.map(|one| string(&one["name"])).collect(),
        })
    }
}

impl Query {
    /// The expression as Grafana sends it, with values for its variables. Longer names must come first.
    #[must_use]
    pub fn with(&self, variables: &[(&str, &str)]) -> String {
        let fill = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
        variables.iter().fold(self.expression.clone(), fill)
    }

    /// The legend of a series.
    #[must_use]
    pub fn legend(&self, labels: &BTreeMap<String, String>) -> String {
        let fill = |text: String, (key, value): (&String, &String)| {
            text.replace(&format!("{{{{{key}}}}}"), value)
        };
        labels.iter().fold(self.legend.clone(), fill)
    }

    /// The legend's template, with the labels' names.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.legend
    }
}

fn query(target: &Value) -> Query {
    Query {
        expression: string(&target["expr"]),
        legend: string(&target["legendFormat"]),
        source: string(&target["datasource"]["uid"]),
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn panels_are_in_rows_and_queries_have_their_variables() {
        let target = json!({ "expr": "rate(a{node=~\"$node\"}[$__rate_interval])", "legendFormat": "{{b}}: {{c}}" });
        let dashboard = json!({
            "panels": [
                { "type": "row", "title": "One" },
                { "type": "stat", "title": "A", "targets": [target] },
            ],
            "templating": { "list": [{ "name": "node" }] },
        });
        let read = Dashboard::parse(&dashboard.to_string()).unwrap();
        assert_eq!(read.variables, ["node"]);
        let panel = &read.panels[0];
        assert_eq!((panel.row.as_str(), panel.title.as_str()), ("One", "A"));
        let filled = panel.queries[0].with(&[("$__rate_interval", "4s"), ("$node", ".*")]);
        assert_eq!(filled, "rate(a{node=~\".*\"}[4s])");
        let labels = [("b", "x"), ("c", "y")].map(|(key, value)| (key.into(), value.into()));
        assert_eq!(panel.queries[0].legend(&labels.into()), "x: y");
    }
}
