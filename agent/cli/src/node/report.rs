//! `usher report`: the costs of sidecars that outlive their apps, by namespace.

use usher_core::admin::{CostReport, NamespaceCost};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport, duration_text},
};

/// Report what it costs that sidecars outlive their apps, by namespace
///
/// POD-HOURS is the time that sidecars ran on after all apps of their pod had
/// ended. CPU-HOURS and MEMORY-GIB-HOURS are the requests of those pods for that
/// time, in cores and GiB; -o wide adds the part of the sidecars. REFUSED counts
/// connections that were refused while a sidecar started, in observe mode.
/// SIGTERM-GAP is the time that apps of deleted pods ran without a sidecar that
/// had ended. In observe mode, OPEN-AT-STOP counts connections within deleted pods
/// that were open when such a sidecar received its stop signal, and AFTER-STOP
/// counts connections that clients opened after the stop signal of an app.
///
/// The agent counts in observe mode as in enforce mode, from its start on. Needs
/// the agent. kubectl usher report --all-nodes adds up the nodes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: &Args, global: &Global) -> Result<Exit, Failure> {
    let source = DataSource::open_quietly(global).await?;
    let report = source.answer(None, gather(&source)).await?;
    let report = filtered(report, global.namespace.as_deref());
    Output::new(global).show(source.origin(), report)?;
    Ok(Exit::Success)
}

/// The costs that the agent counted.
///
/// # Errors
/// When no agent answers.
pub(crate) async fn gather(source: &DataSource) -> Result<CostReport, Failure> {
    source.agent()?.get("/v1/costs").await
}

fn filtered(mut report: CostReport, namespace: Option<&str>) -> CostReport {
    if namespace.is_some() {
        report
            .items
            .retain(|cost| cost.namespace.as_deref() == namespace);
    }
    report
}

impl SysdumpReport for CostReport {
    const KIND: &'static str = "Report";
    const NAME: &'static str = "report";
}

impl Report for CostReport {
    const KIND: &'static str = "Report";

    fn table(&self, wide: bool) -> Table {
        let mut columns = vec![
            "NAMESPACE",
            "PODS",
            "RUNNING",
            "POD-HOURS",
            "CPU-HOURS",
            "MEMORY-GIB-HOURS",
            "REFUSED",
            "SIGTERM-GAP",
            "OPEN-AT-STOP",
            "AFTER-STOP",
        ];
        if wide {
            columns.extend(["SIDECAR-CPU-HOURS", "SIDECAR-MEMORY-GIB-HOURS"]);
        }
        let mut table = Table::new(columns);
        for cost in &self.items {
            let name = cost.namespace.as_deref().unwrap_or("(others)");
            table.row(row(name, cost, wide));
        }
        if self.items.len() > 1 {
            table.row(row("(total)", &self.total(), wide));
        }
        if self.items.is_empty() {
            let text = "no sidecar outlived its apps, and no connection was refused";
            table.lead(Cell::new(text, Tone::Good));
        }
        table.note(Cell::new(counted(self), Tone::Faint));
        table
    }
}

fn row(name: &str, cost: &NamespaceCost, wide: bool) -> Vec<Cell> {
    let hours = |hours: f64| Cell::from(format!("{hours:.3}"));
    let mut row = vec![
        name.to_owned().into(),
        cost.pods.to_string().into(),
        cost.running.to_string().into(),
        hours(cost.pod_hours),
        hours(cost.cpu_hours),
        hours(cost.memory_gib_hours),
        cost.refused_connections.to_string().into(),
        format!("{:.1}s", cost.sigterm_gap_seconds).into(),
        cost.open_at_stop_connections.to_string().into(),
        cost.after_stop_connections.to_string().into(),
    ];
    if wide {
        row.extend([
            hours(cost.sidecar_cpu_hours),
            hours(cost.sidecar_memory_gib_hours),
        ]);
    }
    row
}

/// How long the agents have counted, as text.
fn counted(report: &CostReport) -> String {
    let times = report.nodes.iter().map(|node| node.for_ms);
    let (Some(shortest), Some(longest)) = (times.clone().min(), times.max()) else {
        return "no agent has counted".to_owned();
    };
    match &report.nodes[..] {
        [node] if node.node.is_empty() => format!("counted for {}", duration_text(longest)),
        [node] => format!(
            "counted for {} on node {}",
            duration_text(longest),
            node.node
        ),
        nodes => format!(
            "counted on {} nodes, for {} to {}",
            nodes.len(),
            duration_text(shortest),
            duration_text(longest)
        ),
    }
}

#[cfg(test)]
mod tests {
    use usher_core::admin::CountingNode;

    use super::*;

    fn report(nodes: &[(&str, u64)], namespaces: &[Option<&str>]) -> CostReport {
        CostReport {
            nodes: nodes
                .iter()
                .map(|(node, seconds)| CountingNode {
                    node: (*node).to_owned(),
                    since_ms: 0,
                    for_ms: seconds * 1000,
                })
                .collect(),
            items: namespaces
                .iter()
                .map(|name| NamespaceCost {
                    namespace: name.map(str::to_owned),
                    pods: 2,
                    pod_hours: 1.25,
                    refused_connections: 3,
                    open_at_stop_connections: 4,
                    after_stop_connections: 5,
                    ..NamespaceCost::default()
                })
                .collect(),
        }
    }

    fn text(report: &CostReport) -> Vec<String> {
        let table = report.table(false);
        let rows = table.rows.iter().map(|row| {
            let cells: Vec<&str> = row.iter().map(|cell| &cell.text[..]).collect();
            cells.join(" ")
        });
        let cells = |cells: &[Cell]| {
            let texts = cells.iter().map(|cell| cell.text.clone());
            texts.collect::<Vec<_>>()
        };
        let (lead, notes) = (cells(&table.lead), cells(&table.notes));
        lead.into_iter().chain(rows).chain(notes).collect()
    }

    #[test]
    fn several_namespaces_have_a_total() {
        assert_eq!(
            text(&report(&[("one", 90)], &[Some("shop"), None])),
            [
                "shop 2 0 1.250 0.000 0.000 3 0.0s 4 5",
                "(others) 2 0 1.250 0.000 0.000 3 0.0s 4 5",
                "(total) 4 0 2.500 0.000 0.000 6 0.0s 8 10",
                "counted for 1m 30s on node one",
            ]
        );
        assert_eq!(
            text(&report(&[("one", 90), ("two", 3600)], &[])),
            [
                "no sidecar outlived its apps, and no connection was refused",
                "counted on 2 nodes, for 1m 30s to 1h",
            ]
        );
    }

    #[test]
    fn a_namespace_is_selected() {
        let all = report(&[("one", 90)], &[Some("shop"), Some("infra"), None]);
        assert_eq!(filtered(all.clone(), None), all);
        let selected = filtered(all, Some("shop"));
        assert_eq!(selected.items.len(), 1);
        assert_eq!(selected.items[0].namespace.as_deref(), Some("shop"));
    }
}
