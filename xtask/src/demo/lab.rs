//! Runs Jobs on the cluster and measures when they end: from the app's log, the agent's log, containerd's events and
//! `kubectl wait`.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::Value;
use usher_cluster::Cluster;

use super::Case;
use crate::{
    cluster::{AGENT, AGENT_NAMESPACE},
    file,
    workspace::target_dir,
};

pub(super) const APP: &str = "app";
pub(super) const NAMESPACE: &str = "default";
const SIDECAR: &str = "istio-proxy";
/// Longer than any expected event takes.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the agent observes a Job. A Job that completes takes 3 or 4 s.
const WATCHED: Duration = Duration::from_secs(6);
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Lab<'a> {
    cluster: &'a Cluster,
    /// The `ctr events` process, which writes to a file.
    events: Child,
    events_file: PathBuf,
}

/// Times in milliseconds after the app's last action.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) accepted_ms: Option<f64>,
    pub(super) sidecar_ended_ms: Option<f64>,
    pub(super) complete_ms: f64,
}

/// The Job that usher only observes.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) watched_ms: f64,
    pub(super) decided_ms: f64,
    pub(super) reason: String,
}

/// A pod with an app that has ended.
struct Ended {
    pod: String,
    sidecar: Option<String>,
    at: Timestamp,
}

struct Decision {
    at: Timestamp,
    reason: String,
}

impl<'a> Lab<'a> {
    pub(super) fn open(cluster: &'a Cluster) -> Result<Self> {
        let events_file = target_dir().join("demo-events");
        let file = File::create(&events_file)
            .with_context(|| format!("create {}", events_file.display()))?;
        let events = cluster
            .node_command("ctr")?
            .arg("events")
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .context("start ctr events")?;
        Ok(Self {
            cluster,
            events,
            events_file,
        })
    }

    /// Runs the Job that does not complete.
    pub(super) fn observe(&self) -> Result<Observed> {
        self.cluster.apply(&Case::Observe.job(0))?;
        let ended = self.ended(&Case::Observe.name(0))?;
        let decision = self.decision("would-quit", &ended.pod);
        let decision = decision.context("usher's log does not report the decision")?;
        let is_complete = self.wait(&Case::Observe.name(0), WATCHED).is_ok();
        ensure!(!is_complete, "the Job completed while usher observes");
        Ok(Observed {
            watched_ms: ms(ended.at, Timestamp::now()),
            decided_ms: ms(ended.at, decision.at),
            reason: decision.reason,
        })
    }

    /// Sets the Node's mode to enforce. Returns the milliseconds until the observed Job is Complete.
    pub(super) fn enforce(&self) -> Result<f64> {
        let node = self.cluster.node_name();
        let from = Timestamp::now();
        self.cluster
            .kubectl(&["annotate", "node", node, "usher.dev/mode=enforce"])?;
        let complete = self.wait(&Case::Observe.name(0), LIMIT)?;
        Ok(ms(from, complete))
    }

    /// Runs a Job to its completion.
    pub(super) fn run(&self, case: Case, turn: u32) -> Result<Sample> {
        let name = case.name(turn);
        self.cluster.apply(&case.job(turn))?;
        let complete = self.wait(&name, LIMIT)?;
        let ended = self.ended(&name)?;
        let accepted = match case {
            Case::Enforce => self.decision("quit-accepted", &ended.pod).ok(),
            _ => None,
        };
        let exit = |id: &String| poll("the sidecar's exit event", || self.exit(id));
        let sidecar_ended = ended.sidecar.as_ref().map(exit).transpose()?;
        Ok(Sample {
            accepted_ms: accepted.map(|decision| ms(ended.at, decision.at)),
            sidecar_ended_ms: sidecar_ended.map(|at| ms(ended.at, at)),
            complete_ms: ms(ended.at, complete),
        })
    }

    /// Waits until the Job is Complete. Returns the time at which the watch of `kubectl wait` reported it.
    fn wait(&self, job: &str, limit: Duration) -> Result<Timestamp> {
        let job = format!("job/{job}");
        let timeout = format!("--timeout={}s", limit.as_secs());
        let wait = ["wait", "--for=condition=Complete", &job, &timeout];
        self.cluster
            .kubectl(&[&["-n", NAMESPACE], &wait[..]].concat())?;
        Ok(Timestamp::now())
    }

    /// Waits until the API reports that the Job's app ended.
    fn ended(&self, job: &str) -> Result<Ended> {
        let label = format!("app={job}");
        let (pod, sidecar) = poll("the app's end", || {
            let pods = ["-n", NAMESPACE, "get", "pods", "-l", &label];
            Ok(ended_pod(&self.cluster.kubectl_json(&pods)?))
        })?;
        let log = self
            .cluster
            .kubectl(&["-n", NAMESPACE, "logs", &pod, "-c", APP])?;
        let at = app_exit(&log).with_context(|| format!("no app-exit in the log of {pod}"))?;
        Ok(Ended { pod, sidecar, at })
    }

    /// The decision of this kind about the pod. The agent may log it a moment later.
    fn decision(&self, kind: &str, pod: &str) -> Result<Decision> {
        let pod = format!("{NAMESPACE}/{pod}");
        poll(kind, || {
            let log = self
                .cluster
                .kubectl(&["-n", AGENT_NAMESPACE, "logs", AGENT])?;
            Ok(log.lines().find_map(|line| decision(line, kind, &pod)))
        })
    }

    fn exit(&self, container: &str) -> Result<Option<Timestamp>> {
        let events = file::read(&self.events_file)?;
        Ok(events
            .lines()
            .find_map(|line| container_exit(line, container)))
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // The process may have ended with the node.
        drop(self.events.kill());
        drop(self.events.wait());
    }
}

fn poll<T>(what: &str, mut find: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = find()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("no {what} within {} s", LIMIT.as_secs());
        }
        thread::sleep(POLL);
    }
}

/// Milliseconds from the app's end to a later time.
fn ms(from: Timestamp, to: Timestamp) -> f64 {
    let time: Duration = to.duration_since(from).try_into().unwrap_or_default();
    time.as_secs_f64() * 1e3
}

/// The name of the first pod of a list and the id of its sidecar, once the app has terminated.
fn ended_pod(list: &Value) -> Option<(String, Option<String>)> {
    let pod = &list["items"][0];
    let statuses = || {
        ["containerStatuses", "initContainerStatuses"]
            .into_iter()
            .flat_map(|kind| pod["status"][kind].as_array())
            .flatten()
    };
    let app = statuses().find(|status| status["name"] == APP)?;
    app["state"]["terminated"].as_object()?;
    let sidecar = statuses()
        .find(|status| status["name"] == SIDECAR)
        .and_then(|status| status["containerID"].as_str()?.split_once("://"))
        .map(|(_, id)| id.to_owned());
    Some((pod["metadata"]["name"].as_str()?.to_owned(), sidecar))
}

/// Parses a line of the agent's log.
fn decision(line: &str, kind: &str, pod: &str) -> Option<Decision> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line["decision"] != kind || line["pod"] != pod {
        return None;
    }
    Some(Decision {
        at: line["timestamp"].as_str()?.parse().ok()?,
        reason: line["reason"].as_str()?.to_owned(),
    })
}

/// Parses a line of `ctr events`.
fn container_exit(line: &str, id: &str) -> Option<Timestamp> {
    let (_, event) = line.split_once("/tasks/exit ")?;
    let event: Value = serde_json::from_str(event).ok()?;
    // The event of an exec has the same container and another ID.
    if event["container_id"] != id || event["id"] != id {
        return None;
    }
    event["exited_at"].as_str()?.parse().ok()
}

/// Parses the app's last log line, which has the time.
fn app_exit(log: &str) -> Option<Timestamp> {
    let line = log.lines().rfind(|line| line.starts_with("app-exit "))?;
    let ns = line.split_once("unix_ns=")?.1.split(' ').next()?;
    Timestamp::from_nanosecond(ns.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_has_ended_with_its_app() {
        let list = |state: Value| {
            json!({"items": [{
                "metadata": {"name": "native-1-x7"},
                "status": {
                    "containerStatuses": [{"name": "app", "state": state}],
                    "initContainerStatuses": [{"name": "istio-proxy", "containerID": "containerd://a1b2"}],
                },
            }]})
        };
        let found = ended_pod(&list(json!({"terminated": {"exitCode": 0}})));
        assert_eq!(
            found,
            Some(("native-1-x7".to_owned(), Some("a1b2".to_owned())))
        );
        assert_eq!(ended_pod(&list(json!({"running": {}}))), None);
        assert_eq!(ended_pod(&json!({"items": []})), None);
    }

    #[test]
    fn decisions_of_the_agent() {
        let line = r#"{"timestamp":"2026-11-21T07:14:45.745993Z","level":"INFO","message":"decided","decision":"quit-accepted","pod":"default/j1-vn2c6","uid":"u","container":"istio-proxy","since_exit_ms":0.61,"reason":"POST was accepted"}"#;
        let found = decision(line, "quit-accepted", "default/j1-vn2c6").unwrap();
        assert_eq!(found.reason, "POST was accepted");
        assert_eq!(found.at.as_microsecond() % 1_000_000, 745_993);
        assert!(decision(line, "quit-accepted", "default/j2").is_none());
        assert!(decision(line, "gave-up", "default/j1-vn2c6").is_none());
        assert!(decision("thread panicked", "gave-up", "a").is_none());
    }

    #[test]
    fn exits_of_containers() {
        let line = r#"2026-11-21 07:24:31.399233957 +0000 UTC k8s.io /tasks/exit {"container_id":"a1","id":"a1","pid":386,"exited_at":"2026-11-21T07:24:31.399197453Z"}"#;
        let at = container_exit(line, "a1").unwrap();
        assert_eq!(at.subsec_nanosecond(), 399_197_453);
        assert_eq!(container_exit(line, "b2"), None);
        let exec = line.replace(r#""id":"a1""#, r#""id":"probe""#);
        assert_eq!(container_exit(&exec, "a1"), None);
        let delete = line.replace("/tasks/exit", "/tasks/delete");
        assert_eq!(container_exit(&delete, "a1"), None);
    }

    #[test]
    fn last_line_of_the_app() {
        let log = "app-start unix_ns=1\napp-exit unix_ns=1795245285745993123 code=0\n";
        let at = app_exit(log).unwrap();
        assert_eq!(at.as_nanosecond(), 1_795_245_285_745_993_123);
        assert_eq!(app_exit("app-start unix_ns=1\n"), None);
    }
}
