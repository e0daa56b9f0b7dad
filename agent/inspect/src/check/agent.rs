//! Checks of the node's agent, from its own report, and of tables that remain in pods without an agent.

mod counted;

use std::time::Duration;

use usher_core::{
    metric::sample::{Sample, sum},
    settings::mode::{Limit, Mode},
};

use self::counted::{events, failures, holder, quarantine, settings, worker};
use super::{Check, Question};

questions! {
    Agent {
        RUNS = "agent-runs",
            "the agent runs",
            "without it no sidecar is terminated and no new pod is held; the kernel releases held connections at their deadline";
        READY = "agent-ready",
            "the agent is ready",
            "until then it only observes";
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
            "the process that holds starts runs",
            "when it ended, the starts that it held continued";
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
    Remains {
        TABLES = "remains-tables",
            "every table in a pod belongs to an agent",
            "the pod's connections wait until the kernel's own deadline; after that the table does nothing";
    }
}

/// Maximum age of the list. The agent requests it at least every five minutes.
const STALE: Duration = Duration::from_secs(11 * 60);

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
    pub version: String,
    pub up: Duration,
    /// Conditions that must become true before the agent is ready.
    pub waits: Vec<String>,
    /// The mode of each capability, and how long it has been in effect.
    pub modes: Vec<(&'static str, Mode, Option<Duration>)>,
    /// Why the agent only observes although a mode is set to enforce.
    pub limit: Option<Limit>,
    /// The age of the kubelet's last list.
    pub listed: Option<Duration>,
    pub node: Watch,
    /// The Namespaces that the agent cannot read, one line each.
    pub unread_namespaces: Vec<String>,
    pub plugin: Plugin,
    pub samples: Vec<Sample>,
}

/// The agent's watch of its own Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// The agent runs without an API server.
    Off,
    /// The time since the last message.
    Alive(Option<Duration>),
    /// The time since the watch failed.
    Broken(Option<Duration>),
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
            let mend = "kubectl get pods -n usher -l app.kubernetes.io/name=usher -o wide, and kubectl logs -n usher POD -c agent --previous; to install it: helm install usher";
            let mut checks = vec![RUNS.failed(error, mend)];
            let others = ALL.iter().filter(|one| **one != &RUNS && **one != &TABLES);
            checks.extend(others.map(|one| one.skipped("no agent")));
            checks
        }
    };
    checks.push(tables(&found.tables));
    checks
}

fn of_agent(agent: &Agent, own: &str) -> Vec<Check> {
    vec![
        RUNS.ok(format!("for {}", written(agent.up))),
        ready(&agent.waits),
        versions(agent, own),
        modes(&agent.modes, agent.limit),
        settings(&agent.samples),
        worker(&agent.samples),
        quarantine(&agent.samples),
        holder(&agent.samples),
        list(agent),
        api_server(agent),
        namespaces(agent),
        events(&agent.samples),
        failures(&agent.samples),
    ]
}

fn ready(waits: &[String]) -> Check {
    if waits.is_empty() {
        return READY.ok("yes");
    }
    READY.failed(
        waits.join("; "),
        "see kubelet-pods and agent-api-server; kubectl logs -n usher ds/usher -c agent",
    )
}

fn versions(agent: &Agent, own: &str) -> Check {
    let mend =
        "kubectl rollout restart -n usher ds/usher, and kubectl rollout status -n usher ds/usher";
    if agent.version != own {
        let saw = format!("agent {}, this program {own}", agent.version);
        return VERSIONS.warning(saw, mend);
    }
    match &agent.plugin {
        Plugin::Same => VERSIONS.ok(format!("{own}; the plugin is that of the agent's image")),
        Plugin::Absent => VERSIONS.ok(format!("{own}; no plugin is installed")),
        Plugin::Unknown(why) => VERSIONS.ok(format!("{own}; the plugin cannot be compared: {why}")),
        Plugin::Other => VERSIONS.warning(
            format!("{own}; the plugin on the host is another than that of the image"),
            mend,
        ),
    }
}

fn modes(modes: &[(&'static str, Mode, Option<Duration>)], limit: Option<Limit>) -> Check {
    let shown: Vec<String> = modes
        .iter()
        .map(|(capability, mode, since)| match since {
            Some(since) => format!("{capability}: {mode} for {}", written(*since)),
            None => format!("{capability}: {mode}"),
        })
        .collect();
    let shown = shown.join(", ");
    if let Some(limit) = limit {
        let saw = format!("{shown}, although enforce is set: {}", <&str>::from(limit));
        MODES.failed(saw, limit_fix(limit))
    } else if modes.iter().any(|(_, mode, _)| *mode == Mode::Enforce) {
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

fn list(agent: &Agent) -> Check {
    let failed = sum(&agent.samples, "usher_kubelet_requests_total", &[])
        - sum(
            &agent.samples,
            "usher_kubelet_requests_total",
            &[("result", "ok")],
        );
    let mend = "see kubelet-pods";
    match agent.listed {
        None => LIST.failed("no list yet", mend),
        Some(age) if age > STALE => LIST.failed(format!("{} old", written(age)), mend),
        Some(age) => LIST.ok(format!("{} old; {failed} requests failed", written(age))),
    }
}

fn api_server(agent: &Agent) -> Check {
    let errors = sum(&agent.samples, "usher_node_watch_errors_total", &[]);
    let ago = |since: Option<Duration>| {
        since.map_or_else(
            || "never".to_owned(),
            |since| format!("{} ago", written(since)),
        )
    };
    match agent.node {
        Watch::Off => API_SERVER.skipped("the agent runs with --api-server off"),
        Watch::Alive(since) => API_SERVER.ok(format!("last heard {}; {errors} errors", ago(since))),
        Watch::Broken(since) => API_SERVER.failed(
            format!("the watch is broken, last heard {}; {errors} errors", ago(since)),
            "kubectl auth can-i watch nodes --as system:serviceaccount:usher:usher; where that says yes, the node does not reach the API server",
        ),
    }
}

fn namespaces(agent: &Agent) -> Check {
    if agent.node == Watch::Off {
        return NAMESPACES.skipped("the agent runs with --api-server off");
    }
    if !agent.unread_namespaces.is_empty() {
        return NAMESPACES.failed(
            agent.unread_namespaces.join("; "),
            "kubectl auth can-i get namespaces --as system:serviceaccount:usher:usher; where that says yes, the node does not reach the API server",
        );
    }
    let requests = sum(&agent.samples, "usher_namespace_requests_total", &[]);
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
fn written(time: Duration) -> impl std::fmt::Display {
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}
