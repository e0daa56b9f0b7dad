//! What became of the pods, compared with what each wants.

use std::time::Duration;

use serde_json::Value;

use super::{Case, Wanted};
use crate::{
    cli_explain::explain,
    lab::{Lab, Line},
    workload::exit_code,
};

/// The time between a listener and the connection that waits for it: usher releases at the latest 2 s after the listener of a
/// proxy with a failing readiness probe, and many pods share the node.
const SOON: Duration = Duration::from_millis(4500);

/// The state of all pods of the namespace.
pub(super) struct Observed<'lab> {
    lab: &'lab Lab,
    namespace: &'lab str,
    jobs: Vec<Value>,
    pods: Vec<Value>,
    quits: Vec<Line>,
    holds: Vec<Line>,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
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
        let mut pods = self.pods.iter();
        let pod = pods.find(|pod| pod["metadata"]["labels"]["app"] == case.case);
        let pod = pod.ok_or("no pod")?;
        match &case.wanted {
            Wanted::Completes(sidecars) => self.completes(case, pod, sidecars)?,
            Wanted::Connects(port) => self.connects(pod, *port)?,
            Wanted::Starts => self.starts(pod)?,
            Wanted::Explained { findings, says } => self.explained(pod, findings, says)?,
        }
        self.reports(case, pod)
    }

    fn name(pod: &Value) -> &str {
        pod["metadata"]["name"].as_str().unwrap_or_default()
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
        let mut jobs = self.jobs.iter();
        let job = jobs.find(|job| job["metadata"]["name"] == case.case);
        let conditions = job.and_then(|job| job["status"]["conditions"].as_array());
        let is_complete = |one: &Value| one["type"] == "Complete" && one["status"] == "True";
        ensure(
            conditions.is_some_and(|all| all.iter().any(is_complete)),
            || format!("conditions: {conditions:?}"),
        )
    }

    fn log(&self, pod: &Value, container: &str) -> String {
        let logs = [
            "-n",
            self.namespace,
            "logs",
            Self::name(pod),
            "-c",
            container,
        ];
        self.lab.cluster.kubectl(&logs).unwrap_or_default()
    }

    /// When the sidecars of a pod began to listen, by their own logs.
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

    fn connects(&self, pod: &Value, port: u16) -> Checked {
        let log = self.log(pod, "main");
        let mut lines = log.lines();
        let connected = lines.find_map(|line| line.strip_prefix("app-connect "));
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

    fn explained(&self, pod: &Value, findings: &[String], says: &[String]) -> Checked {
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
        let is_whole = says.iter().all(|word| text.contains(word));
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
