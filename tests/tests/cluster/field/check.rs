//! Compares the outcome of each pod with the expected one.

use std::{fs, time::Duration};

use serde_json::Value;

use super::case::{Case, Kind, Wanted};
use crate::{
    cli_explain::explain,
    lab::{Lab, Line},
    workload::exit_code,
};

/// The time between a listener and the held connection to it. usher releases at the latest 2 s after the listener of a
/// proxy with a failing readiness probe, and all pods share the node. A hold that waits for another condition ends at
/// its deadline, after 30 s or more.
const SOON: Duration = Duration::from_secs(15);

/// The state of all pods of the namespace.
pub(super) struct Observed<'lab> {
    lab: &'lab Lab,
    namespace: &'lab str,
    jobs: Vec<Value>,
    pods: Vec<Value>,
    quits: Vec<Line>,
    holds: Vec<Line>,
}

pub(super) type Checked = Result<(), String>;

pub(super) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

impl<'lab> Observed<'lab> {
    pub(super) fn of(lab: &'lab Lab, namespace: &'lab str) -> Self {
        let list = |kind: &str| {
            let found = lab.cluster.kubectl_json(&["-n", namespace, "get", kind]);
            let found = found.map_or(Value::Null, |mut list| list["items"].take());
            found.as_array().cloned().unwrap_or_default()
        };
        Self {
            jobs: list("jobs"),
            pods: list("pods"),
            quits: lab.decisions(namespace),
            holds: lab.holds(namespace),
            lab,
            namespace,
        }
    }

    pub(super) fn check(&self, case: &Case) -> Checked {
        if let Wanted::Gone = case.wanted {
            let pod = self.pod(case).ok();
            return ensure(pod.is_none(), || "the pod exists".to_owned());
        }
        let pod = self.pod(case)?;
        match &case.wanted {
            Wanted::Completes(sidecars) => self.completes(case, pod, sidecars)?,
            Wanted::Connects(port) => self.connects(pod, *port)?,
            Wanted::Starts => self.starts(pod)?,
            Wanted::Explained { findings, words } => self.explained(pod, findings, words)?,
            Wanted::Indexes { completed, failed } => self.indexes(case, completed, failed)?,
            Wanted::Gone => {}
        }
        self.reports(case, pod)
    }

    /// The pod of a case; the newest of several.
    pub(super) fn pod(&self, case: &Case) -> Result<&Value, String> {
        let pods = self.pods.iter();
        let pods = pods.filter(|pod| pod["metadata"]["labels"]["app"] == case.case);
        let newest = pods.max_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str());
        newest.ok_or_else(|| "no pod".to_owned())
    }

    /// Whether the pod with this UID exists.
    pub(super) fn exists(&self, uid: &str) -> bool {
        self.pods.iter().any(|pod| pod["metadata"]["uid"] == uid)
    }

    pub(super) fn name(pod: &Value) -> &str {
        pod["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Whether this decision about the connections of a pod was made.
    pub(super) fn holds(&self, pod: &Value, decision: &str) -> bool {
        let mut lines = self.about(&self.holds, pod);
        lines.any(|line| line.text("decision") == decision)
    }

    /// Changes something in the namespace.
    pub(super) fn kubectl(&self, args: &[&str]) -> Checked {
        let all = [&["-n", self.namespace], args].concat();
        let done = self.lab.cluster.kubectl(&all);
        done.map(drop).map_err(|error| format!("{error:#}"))
    }

    /// The lines about one pod.
    fn about<'line>(&self, lines: &'line [Line], pod: &Value) -> impl Iterator<Item = &'line Line> {
        let pod = format!("{}/{}", self.namespace, Self::name(pod));
        lines.iter().filter(move |line| line.text("pod") == pod)
    }

    fn reports(&self, case: &Case, pod: &Value) -> Checked {
        for decision in &case.unreported {
            let mut lines = self.about(&self.quits, pod);
            let found = lines.find(|line| line.text("decision") == decision);
            ensure(found.is_none(), || format!("{found:?}"))?;
        }
        for decision in &case.reported_once {
            let lines = self.about(&self.quits, pod);
            let found = lines.filter(|line| line.text("decision") == decision);
            let count = found.count();
            ensure(count == 1, || format!("{decision}: {count} times"))?;
        }
        let Some(text) = &case.released else {
            return Ok(());
        };
        let mut lines = self.about(&self.holds, pod);
        let released = lines.find(|line| line.text("decision") == "hold-released");
        let reason = released.map_or("", |line| line.text("reason"));
        ensure(reason.contains(text), || format!("released: {reason}"))
    }

    fn completes(&self, case: &Case, pod: &Value, sidecars: &[String]) -> Checked {
        let ended: Vec<&str> = self
            .about(&self.quits, pod)
            .filter(|line| line.text("decision") == "sidecar-ended")
            .map(|line| line.text("container"))
            .collect();
        ensure(ended == sidecars, || {
            let all: Vec<_> = self.about(&self.quits, pod).collect();
            format!("sidecars ended: {ended:?}; {all:?}")
        })?;
        for sidecar in sidecars {
            let code = exit_code(pod, sidecar);
            ensure(*code == 0, || format!("exit code of {sidecar}: {code}"))?;
        }
        let statuses = pod["status"]["containerStatuses"].as_array();
        let mut statuses = statuses.into_iter().flatten();
        let restarted = statuses.find(|status| status["restartCount"] != 0);
        ensure(restarted.is_none(), || format!("restarted: {restarted:?}"))?;
        if case.kind == Kind::Pod {
            let phase = &pod["status"]["phase"];
            return ensure(phase == "Succeeded", || format!("phase {phase}"));
        }
        let conditions = self.job(case)["status"]["conditions"].as_array();
        let is_complete = |one: &Value| one["type"] == "Complete" && one["status"] == "True";
        ensure(
            conditions.is_some_and(|all| all.iter().any(is_complete)),
            || format!("conditions: {conditions:?}"),
        )
    }

    fn job(&self, case: &Case) -> &Value {
        let mut jobs = self.jobs.iter();
        let job = jobs.find(|job| job["metadata"]["name"] == case.case);
        job.unwrap_or(&Value::Null)
    }

    fn indexes(&self, case: &Case, completed: &str, failed: &str) -> Checked {
        let status = &self.job(case)["status"];
        let is_right = status["completedIndexes"] == completed && status["failedIndexes"] == failed;
        ensure(is_right, || status.to_string())
    }

    /// The log of a container's first run, from the node: `TIME STREAM TAG TEXT` in each line.
    fn log(&self, pod: &Value, container: &str) -> String {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let folder = format!("{}_{}_{uid}", self.namespace, Self::name(pod));
        let logs = self
            .lab
            .cluster
            .node_root()
            .map(|root| root.join("var/log/pods"));
        let file = logs.map(|logs| logs.join(folder).join(container).join("0.log"));
        let text = file.and_then(|file| fs::read_to_string(file).ok());
        let text = text.unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The times at which the sidecars of a pod started to listen, by their own logs.
    fn listeners(&self, pod: &Value, port: Option<u16>) -> Vec<u128> {
        let containers = ["containers", "initContainers"];
        let containers = containers
            .iter()
            .filter_map(|list| pod["spec"][*list].as_array());
        let names = containers
            .flatten()
            .filter_map(|container| container["name"].as_str());
        let logs: Vec<String> = names.map(|name| self.log(pod, name)).collect();
        let wanted = port.map(|port| format!("port={port} "));
        logs.iter()
            .flat_map(|log| log.lines())
            .filter_map(|line| line.strip_prefix("app-listen "))
            .filter(|line| {
                wanted
                    .as_ref()
                    .is_none_or(|port| line.starts_with(&port[..]))
            })
            .filter_map(unix_ns)
            .collect()
    }

    /// Whether the connection, or the last one of several requests, succeeded soon after the port had a listener.
    pub(super) fn connects(&self, pod: &Value, port: u16) -> Checked {
        let log = self.log(pod, "main");
        let mut lines = log.lines();
        let connected = lines.find_map(|line| {
            line.strip_prefix("app-connect ")
                .or_else(|| line.strip_prefix("app-get "))
        });
        let connected = connected.ok_or("no connection yet")?;
        ensure(!connected.contains("error="), || connected.to_owned())?;
        let listener = self.listeners(pod, Some(port)).into_iter().min();
        soon(listener, unix_ns(connected))
    }

    fn starts(&self, pod: &Value) -> Checked {
        let log = self.log(pod, "main");
        let mut lines = log.lines();
        let started = lines.find_map(|line| line.strip_prefix("app-start "));
        let listener = self.listeners(pod, None).into_iter().max();
        soon(listener, started.and_then(unix_ns))
    }

    fn explained(&self, pod: &Value, findings: &[String], words: &[String]) -> Checked {
        let pod = format!("{}/{}", self.namespace, Self::name(pod));
        let (text, code) = explain(self.lab, &pod, &["-o", "json"]);
        let explanation: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let all = explanation["findings"].as_array().cloned();
        let troubles: Vec<Value> = all
            .unwrap_or_default()
            .into_iter()
            .filter(|finding| finding["severity"] != "hint")
            .collect();
        let ids: Vec<&str> = troubles
            .iter()
            .filter_map(|one| one["id"].as_str())
            .collect();
        let verdict = &explanation["verdict"];
        let text = format!("{verdict} {troubles:?}");
        let is_healthy = verdict["healthy"] == findings.is_empty();
        let is_whole = words.iter().all(|word| text.contains(word));
        ensure(ids == findings && is_healthy && is_whole, || {
            format!("exit code {code:?}: {text}")
        })
    }
}

/// The time of a line of the test application.
fn unix_ns(line: &str) -> Option<u128> {
    let mut fields = line.split_whitespace();
    fields
        .find_map(|field| field.strip_prefix("unix_ns="))?
        .parse()
        .ok()
}

/// Whether the second time comes soon after the first one.
fn soon(listener: Option<u128>, then: Option<u128>) -> Checked {
    let (Some(listener), Some(then)) = (listener, then) else {
        return Err(format!("listener at {listener:?}, app at {then:?}"));
    };
    let after = then.checked_sub(listener);
    ensure(after.is_some_and(|after| after <= SOON.as_nanos()), || {
        format!("{after:?} ns after the listener at {listener}")
    })
}
