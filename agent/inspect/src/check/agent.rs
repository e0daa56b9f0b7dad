//! Checks of the node's agent, from its own report, and of tables that remain in pods without an agent.

mod counted;

use std::time::Duration;

use usher_core::{
    admin::{ApiServer, Modes, Status},
    metric::sample::{Sample, sum},
    settings::mode::{Limit, Mode},
};

use self::counted::{events, failures, holder, quarantine, settings, worker};
use super::{Check, Question, command};

questions! {
    Agent {
        RUNS = "agent-runs",
            "the agent runs",
            "without it no sidecar is terminated and no new pod is held; the kernel releases held connections at their deadline";
        READY = "agent-ready",
            "the agent is ready",
            "without the kubelet's pods or the Node's annotations it only observes; without the CNI plugin it may discover pods too late to hold them";
        VERSIONS = "agent-versions",
            "agent, plugin and this program have the same version",
            "they share a protocol; an upgrade replaces all of them";
        MODES = "agent-modes",
            "the Node enables usher",
            "in observe mode usher decides and reports, and does nothing";
        SETTINGS = "agent-configuration",
            "the agent uses the current configuration file",
            "while the file is invalid, an older one applies";
        WORKER = "agent-worker",
            "the process that works in the network namespaces of pods runs",
            "without it nothing is held, and sidecars are terminated by signals only; the agent starts another one";
        QUARANTINE = "agent-quarantine",
            "no pod was left alone for what it does to its network",
            "such a pod is not held, and its sidecars are terminated by signals only";
        HOLDER = "agent-holder",
            "the process that holds starts and stop signals runs",
            "when it ended, the starts and stop signals that it held were released";
        LIST = "agent-kubelet",
            "the agent's list of pods is recent",
            "the agent does nothing to pods that started after its last list";
        API_SERVER = "agent-api-server",
            "the agent watches its Node at the API server",
            "changes of the Node's annotations have no effect; the last known ones apply";
        NAMESPACES = "agent-namespaces",
            "the agent reads the Namespaces of its pods",
            "the pods of a Namespace that was never read are neither held nor terminated, because it may opt out";
        EVENTS = "agent-events",
            "Kubernetes Events are sent",
            "the decisions are in the log and the timeline all the same";
        FAILURES = "agent-failures",
            "nothing failed since the agent started",
            "each failure left a pod as it would be without usher";
    }
    Leftovers {
        TABLES = "leftover-tables",
            "every table in a pod belongs to an agent",
            "the pod's connections wait until the kernel's own deadline; after that the table does nothing";
    }
}

/// Maximum age of the list. The agent requests it at least every five minutes.
const STALE_MS: u64 = 11 * 60 * 1000;

/// The facts about the agent.
#[derive(Debug, Clone)]
pub struct Found {
    /// The version of this program.
    pub version: String,
    /// The report of the agent, or the reason why there is none.
    pub agent: Result<Agent, String>,
    /// Tables of usher in pods without an agent.
    pub tables: Result<Vec<String>, String>,
}

/// The report of the agent.
#[derive(Debug, Clone)]
pub struct Agent {
    pub status: Status,
    pub plugin: Plugin,
    pub samples: Vec<Sample>,
}

/// The plugin's binary on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plugin {
    /// The binary equals the one in the agent's image.
    Same,
    Other,
    Absent,
    /// The binary cannot be compared, for this reason.
    Unknown(String),
}

pub fn judge(found: &Found) -> Vec<Check> {
    let mut checks = match &found.agent {
        Ok(agent) => of_agent(agent, &found.version),
        Err(error) => {
            let fix = "kubectl get pods -n usher -l app.kubernetes.io/name=usher -o wide, and kubectl logs -n usher POD -c agent --previous; to install it: helm install usher";
            let mut checks = vec![RUNS.failed(error, fix)];
            let others = ALL.iter().filter(|one| **one != &RUNS && **one != &TABLES);
            checks.extend(others.map(|one| one.skipped("no agent")));
            checks
        }
    };
    checks.push(tables(&found.tables));
    checks
}

fn of_agent(found: &Agent, own: &str) -> Vec<Check> {
    let Agent {
        status,
        plugin,
        samples,
    } = found;
    let agent = status.agent.clone().unwrap_or_default();
    vec![
        RUNS.ok(format!("for {}", written(agent.up_ms))),
        ready(&agent.waits),
        versions(&agent.version, plugin, own),
        modes(&status.modes),
        settings(samples),
        worker(samples),
        quarantine(samples),
        holder(samples),
        list(status.kubelet.listed_ms_ago, samples),
        api_server(&status.api_server, samples),
        namespaces(&status.api_server, samples),
        events(samples),
        failures(samples),
    ]
}

fn ready(waits: &[String]) -> Check {
    if waits.is_empty() {
        return READY.ok("yes");
    }
    let fix = format!(
        "the kubelet's pods: see kubelet-pods; the Node's annotations: agent-api-server; the CNI plugin: cni-entry; {}",
        command::logs("")
    );
    READY.failed(waits.join("; "), fix)
}

fn versions(agent: &str, plugin: &Plugin, own: &str) -> Check {
    let fix = command::restart();
    if agent != own {
        let message = format!("agent {agent}, this program {own}");
        return VERSIONS.warning(message, fix);
    }
    match plugin {
        Plugin::Same => VERSIONS.ok(format!("{own}; the plugin is that of the agent's image")),
        Plugin::Absent => VERSIONS.ok(format!("{own}; no plugin is installed")),
        Plugin::Unknown(why) => VERSIONS.ok(format!("{own}; the plugin cannot be compared: {why}")),
        Plugin::Other => VERSIONS.warning(
            format!("{own}; the plugin on the host is another than that of the image"),
            fix,
        ),
    }
}

fn modes(modes: &Modes) -> Check {
    let all = [
        ("quit", modes.quit, modes.quit_for_ms),
        ("hold", modes.hold, modes.hold_for_ms),
        ("linger", modes.linger, modes.linger_for_ms),
    ];
    let shown = all.map(|(capability, mode, since)| match since {
        Some(since) => format!("{capability}: {mode} for {}", written(since)),
        None => format!("{capability}: {mode}"),
    });
    let shown = shown.join(", ");
    if let Some(limit) = modes.limit {
        let message = format!("{shown}, although enforce is set: {}", <&str>::from(limit));
        MODES.failed(message, limit_fix(limit))
    } else if all.iter().any(|(_, mode, _)| *mode == Mode::Enforce) {
        MODES.ok(shown)
    } else {
        MODES.warning(shown, "kubectl annotate node NODE usher.dev/mode=enforce --overwrite, once its decisions are what you want")
    }
}

/// What ends a limit of the modes.
pub(crate) const fn limit_fix(limit: Limit) -> &'static str {
    match limit {
        Limit::InvalidConfiguration => "usher config, and correct the ConfigMap",
        Limit::UnknownHost => {
            "give the agent's pod hostPID: true, hostNetwork: true and the capability SYS_PTRACE, as the chart does"
        }
        Limit::UnknownNode => {
            "kubectl auth can-i get nodes --as system:serviceaccount:usher:usher; where that says yes, the node does not reach the API server"
        }
    }
}

fn list(age_ms: Option<u64>, samples: &[Sample]) -> Check {
    let requests = |labels: &[(&str, &str)]| sum(samples, "usher_kubelet_requests_total", labels);
    let failed = requests(&[]) - requests(&[("result", "ok")]);
    let fix = "see kubelet-pods";
    match age_ms {
        None => LIST.failed("no list yet", fix),
        Some(age) if age > STALE_MS => LIST.failed(format!("{} old", written(age)), fix),
        Some(age) => LIST.ok(format!("{} old; {failed} requests failed", written(age))),
    }
}

fn api_server(api: &ApiServer, samples: &[Sample]) -> Check {
    let errors = sum(samples, "usher_node_watch_errors_total", &[]);
    let last = api.last_response_ms_ago.map_or_else(
        || "never".to_owned(),
        |since| format!("{} ago", written(since)),
    );
    match &api.error {
        _ if !api.watched => API_SERVER.skipped("the agent runs with --api-server off"),
        None => API_SERVER.ok(format!("last response {last}; {errors} errors")),
        Some(_) => API_SERVER.failed(
            format!("the watch is broken, last response {last}; {errors} errors"),
            "kubectl auth can-i watch nodes --as system:serviceaccount:usher:usher; where that says yes, the node does not reach the API server",
        ),
    }
}

fn namespaces(api: &ApiServer, samples: &[Sample]) -> Check {
    if !api.watched {
        return NAMESPACES.skipped("the agent runs with --api-server off");
    }
    if !api.unread_namespaces.is_empty() {
        return NAMESPACES.failed(
            api.unread_namespaces.join("; "),
            "kubectl auth can-i get namespaces --as system:serviceaccount:usher:usher; where that says yes, the node does not reach the API server",
        );
    }
    let requests = sum(samples, "usher_namespace_requests_total", &[]);
    NAMESPACES.ok(format!("{requests} requests"))
}

fn tables(tables: &Result<Vec<String>, String>) -> Check {
    match tables {
        Ok(tables) if tables.is_empty() => TABLES.ok("none"),
        Ok(tables) => TABLES.warning(
            tables.join(", "),
            "usher cleanup --dry-run, then usher cleanup unless an agent will return",
        ),
        Err(error) => TABLES.skipped(error),
    }
}

/// Formats a duration in whole seconds.
fn written(ms: u64) -> impl std::fmt::Display {
    humantime::format_duration(Duration::from_secs(ms / 1000))
}
