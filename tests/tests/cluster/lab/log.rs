//! The agent's log, and the decisions in it.

use std::{fs, path::PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use super::{Lab, until};

/// One line of the agent's log.
#[derive(Debug, Clone)]
pub(crate) struct Line(pub(crate) Value);

impl Line {
    pub(crate) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    fn at(&self) -> Option<Timestamp> {
        self.text("timestamp").parse().ok()
    }
}

impl Lab {
    /// The agents' log, in order. It may shrink: the kubelet removes the logs of old pods.
    pub(crate) fn log(&self) -> Vec<Line> {
        self.log_with("")
    }

    /// The lines with this text. Parses no others, because tests read the whole log again and again.
    fn log_with(&self, text: &str) -> Vec<Line> {
        let root = self.cluster.node_root().expect("the node is up");
        let pods = fs::read_dir(root.join("var/log/pods")).unwrap();
        let mut files: Vec<PathBuf> = pods
            .flatten()
            .filter(|pod| {
                pod.file_name()
                    .to_string_lossy()
                    .starts_with("usher_usher-")
            })
            .flat_map(|pod| {
                fs::read_dir(pod.path().join("agent"))
                    .into_iter()
                    .flatten()
                    .flatten()
            })
            .map(|file| file.path())
            .collect();
        files.sort();
        let texts = files
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        let mut lines: Vec<Line> = texts
            .flat_map(|file| {
                let found = file.lines().filter(|line| line.contains(text));
                found.filter_map(line).collect::<Vec<_>>()
            })
            .collect();
        lines.sort_by_cached_key(Line::at);
        lines
    }

    /// The same, from a moment on.
    pub(crate) fn log_since(&self, since: Timestamp) -> Vec<Line> {
        let mut lines = self.log();
        lines.retain(|line| line.at().is_some_and(|at| at >= since));
        lines
    }

    /// The decisions about the sidecars of a namespace's pods.
    pub(crate) fn decisions(&self, namespace: &str) -> Vec<Line> {
        self.decided_about(namespace, false)
    }

    /// The decisions about the connections of a namespace's pods.
    pub(crate) fn holds(&self, namespace: &str) -> Vec<Line> {
        self.decided_about(namespace, true)
    }

    /// Whether a hold has reached its deadline since then.
    pub(crate) fn deadline_since(&self, since: Timestamp) -> bool {
        self.log_since(since).iter().any(|line| {
            line.text("decision") == "hold-released"
                && line
                    .text("reason")
                    .contains("the sidecar is not ready at the deadline")
        })
    }

    fn decided_about(&self, namespace: &str, connections: bool) -> Vec<Line> {
        let prefix = format!("{namespace}/");
        let mut lines = self.log_with(&prefix);
        lines.retain(|line| {
            let about_connections = line.text("decision").contains("hold");
            line.text("pod").starts_with(&prefix) && about_connections == connections
        });
        lines
    }

    /// The number of these decisions about the pods of a namespace.
    pub(crate) fn count(&self, namespace: &str, decision: &str) -> usize {
        let decisions = self.decisions(namespace);
        decisions
            .iter()
            .filter(|line| line.text("decision") == decision)
            .count()
    }

    /// Waits for a decision about a pod of a namespace.
    pub(crate) fn decided(&self, namespace: &str, decision: &str) -> Line {
        until(&format!("{decision} in {namespace}"), || {
            let decisions = self.decisions(namespace);
            decisions
                .into_iter()
                .find(|line| line.text("decision") == decision)
        })
    }
}

/// One line of a container's log file: time, stream, tag, and text.
fn line(text: &str) -> Option<Line> {
    let json = text.splitn(4, ' ').nth(3)?;
    serde_json::from_str(json).ok().map(Line)
}
