//! The lines of the agent's log, of kubectl's watches, of containerd's events and of the app, taken apart.

use jiff::Timestamp;
use serde_json::Value;

/// What `kubectl get jobs -w` is asked to print of each change.
pub(super) const JOB_FORMAT: &str =
    r#"jsonpath={.metadata.name}|{.status.conditions[?(@.type=="Complete")].status}{"\n"}"#;
/// What `kubectl get pods -w` is asked to print of each change.
pub(super) const POD_FORMAT: &str = concat!(
    r#"jsonpath={.metadata.labels.app}|{.metadata.name}|"#,
    r#"{.status.containerStatuses[?(@.name=="app")].state.terminated.exitCode}|"#,
    r#"{.status.containerStatuses[?(@.name=="istio-proxy")].containerID}"#,
    r#"{.status.initContainerStatuses[?(@.name=="istio-proxy")].containerID}{"\n"}"#,
);
const EXIT: &str = "/tasks/exit ";

/// Whether a line of [`JOB_FORMAT`] says that a Job is complete.
pub(super) fn is_complete(line: &str, job: &str) -> bool {
    line.split_once('|') == Some((job, "True"))
}

/// A line of [`POD_FORMAT`].
#[derive(Debug, PartialEq)]
pub(super) struct PodLine<'a> {
    pub(super) job: &'a str,
    pub(super) pod: &'a str,
    pub(super) app_terminated: bool,
    /// The id of the sidecar's container, when it has one.
    pub(super) sidecar: Option<&'a str>,
}

pub(super) fn pod(line: &str) -> Option<PodLine<'_>> {
    let mut parts = line.split('|');
    let (job, pod, code, sidecar) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(PodLine {
        job,
        pod,
        app_terminated: !code.is_empty(),
        sidecar: sidecar.split_once("://").map(|(_, id)| id),
    })
}

/// A decision in the agent's log.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) at: Timestamp,
    pub(super) reason: String,
}

/// The decision of this kind about this pod, if the line is that.
pub(super) fn decision(line: &str, kind: &str, pod: &str) -> Option<Decision> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line["decision"] != kind || line["pod"] != pod {
        return None;
    }
    Some(Decision {
        at: line["timestamp"].as_str()?.parse().ok()?,
        reason: line["reason"].as_str()?.to_owned(),
    })
}

/// Whether the agent says that it enforces.
pub(super) fn enforces(line: &str) -> bool {
    serde_json::from_str(line).is_ok_and(|line: Value| {
        line["message"] == "took the Node's modes" && line["quit"] == "enforce"
    })
}

/// When a container's process ended, if a line of `ctr events` says that.
pub(super) fn container_exit(line: &str, id: &str) -> Option<Timestamp> {
    let (_, event) = line.split_once(EXIT)?;
    let event: Value = serde_json::from_str(event).ok()?;
    // An exec has the same container and an id of its own.
    if event["container_id"] != id || event["id"] != id {
        return None;
    }
    event["exited_at"].as_str()?.parse().ok()
}

/// The app's own last act, in what it wrote.
pub(super) fn app_exit(log: &str) -> Option<Timestamp> {
    let line = log
        .lines()
        .rev()
        .find(|line| line.starts_with("app-exit "))?;
    let ns = line.split_once("unix_ns=")?.1.split(' ').next()?;
    Timestamp::from_nanosecond(ns.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_lines() {
        assert!(is_complete("enforce-1|True", "enforce-1"));
        assert!(!is_complete("enforce-1|", "enforce-1"));
        assert!(!is_complete("enforce-12|True", "enforce-1"));
    }

    #[test]
    fn pod_lines() {
        let line = pod("native-1|native-1-x7|0|containerd://a1b2").unwrap();
        assert_eq!(line.sidecar, Some("a1b2"));
        assert!(line.app_terminated);
        let early = pod("plain-1|plain-1-x7||").unwrap();
        assert_eq!((early.job, early.pod), ("plain-1", "plain-1-x7"));
        assert_eq!((early.app_terminated, early.sidecar), (false, None));
        assert_eq!(pod("half a line"), None);
    }

    #[test]
    fn agents_lines() {
        let line = r#"{"timestamp":"2026-11-21T07:14:45.745993Z","level":"INFO","message":"decided","decision":"quit-accepted","pod":"default/j1-vn2c6","uid":"u","container":"istio-proxy","since_exit_ms":0.61,"reason":"POST was accepted"}"#;
        let found = decision(line, "quit-accepted", "default/j1-vn2c6").unwrap();
        assert_eq!(found.reason, "POST was accepted");
        assert_eq!(found.at.as_microsecond() % 1_000_000, 745_993);
        assert_eq!(decision(line, "quit-accepted", "default/j2"), None);
        assert_eq!(decision(line, "gave-up", "default/j1-vn2c6"), None);
        assert_eq!(decision("thread panicked", "gave-up", "a"), None);
        assert!(!enforces(line));
        assert!(enforces(
            r#"{"message":"took the Node's modes","quit":"enforce"}"#
        ));
    }

    #[test]
    fn containerds_lines() {
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
    fn apps_last_line() {
        let log = "app-start unix_ns=1\napp-exit unix_ns=1795245285745993123 code=0\n";
        let at = app_exit(log).unwrap();
        assert_eq!(at.as_nanosecond(), 1_795_245_285_745_993_123);
        assert_eq!(app_exit("app-start unix_ns=1\n"), None);
    }
}
