//! What the report of costs has of the connections that observe mode counts.

use super::*;
use crate::{pod::spec::Container, settings::config::Config};

const EXCLUDED: &str = "excludedNamespaces: [infra]";

/// A deleted pod, of which every container was stopped.
struct Row {
    what: &'static str,
    namespace: &'static str,
    /// The database proxies, which end with Istio's sidecar.
    sidecars: &'static [&'static str],
    is_deleted: bool,
    /// The connections that were open at the stop signal of each sidecar; None where they were not counted.
    open: &'static [Option<u64>],
    /// The new connections of clients in each later sample.
    new: &'static [u64],
    /// Namespace, connections open at stop, connections after stop.
    expected: Option<(&'static str, u64, u64)>,
}

const ROW: Row = Row {
    what: "",
    namespace: "shop",
    sidecars: &[],
    is_deleted: true,
    open: &[Some(3)],
    new: &[4, 6],
    expected: None,
};

impl Row {
    fn counted(&self) -> Option<(String, u64, u64)> {
        let mut spec = pod(RestartPolicy::Always, &["app"]);
        self.namespace.clone_into(&mut spec.namespace);
        let others = self.sidecars.iter().copied();
        spec.containers.extend(others.clone().map(|name| Container {
            image: "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0".to_owned(),
            ..container(name)
        }));
        let mut stage = Stage::new(Mode::Off, spec);
        let config = Config::parse("row", EXCLUDED).unwrap();
        stage.configure(config);
        stage.hold_mode = Mode::Observe;
        stage.mode(Mode::Off);
        stage.run_all();
        stage.pass(seconds(1));
        if self.is_deleted {
            stage.delete(30, 0);
        }
        let sidecars: Vec<String> = [PROXY].into_iter().chain(others).map(run_of).collect();
        let stops = stage.take().join(" ");
        if stops.contains("app observed") {
            stage.stop_observed("a");
        }
        for (name, run) in [PROXY].iter().chain(self.sidecars).zip(&sidecars) {
            if stops.contains(&format!("{name} observed")) {
                stage.stop_observed(run);
            }
        }
        stage.list();
        stage.reply_to_sample("a", Ok(FIRST));
        for (run, open) in sidecars.iter().zip(self.open) {
            let sample = open.map(|internal| Sample { internal, ..FIRST });
            stage.reply_to_sample(run, sample.ok_or_else(|| "no".to_owned()));
        }
        for connections in self.new {
            stage.pass(seconds(2));
            stage.reply_to_sample("a", connected(*connections));
        }
        for run in &sidecars {
            stage.exit(run, 0);
        }
        stage.pass(seconds(7));
        stage.exit("a", 0);
        stage.reply_to_sample("a", connected(0));
        let costs = stage.engine.costs(stage.now);
        assert!(costs.len() <= 1, "{costs:?}");
        let cost = costs.into_iter().next()?;
        let (open, after) = (cost.open_at_stop_connections, cost.after_stop_connections);
        Some((cost.namespace?, open, after))
    }
}

#[test]
fn connections_of_deleted_pods_add_to_the_costs_of_their_namespace() {
    let rows = [
        Row {
            what: "both decisions",
            expected: Some(("shop", 3, 10)),
            ..ROW
        },
        Row {
            what: "another namespace",
            namespace: "payments",
            expected: Some(("payments", 3, 10)),
            ..ROW
        },
        Row {
            what: "an excluded namespace",
            namespace: "infra",
            ..ROW
        },
        Row {
            what: "no connection after the stop signal",
            new: &[0],
            expected: Some(("shop", 3, 0)),
            ..ROW
        },
        Row {
            what: "no connection at the stop signal",
            open: &[Some(0)],
            expected: Some(("shop", 0, 10)),
            ..ROW
        },
        Row {
            what: "the open connections were not counted",
            open: &[None],
            expected: Some(("shop", 0, 10)),
            ..ROW
        },
        Row {
            what: "two sidecars report the connections of one pod",
            sidecars: &["sql"],
            open: &[Some(3), Some(2)],
            expected: Some(("shop", 3, 10)),
            ..ROW
        },
        Row {
            what: "no deletion",
            is_deleted: false,
            ..ROW
        },
        Row {
            what: "no connection",
            open: &[Some(0)],
            new: &[0],
            ..ROW
        },
    ];
    for row in rows {
        let expected = row
            .expected
            .map(|(namespace, open, after)| (namespace.to_owned(), open, after));
        assert_eq!(row.counted(), expected, "{}", row.what);
    }
}
