//! The agent of the node, by what it says of itself, and what is left of pods that have gone.

use std::time::Duration;

use usher_core::{
    metric::sample::{Sample, sum},
    settings::mode::Mode,
};

use super::{Category, Check, Question};

const fn question(id: &'static str, title: &'static str, why: &'static str) -> Question {
    Question {
        id,
        category: Category::Agent,
        title,
        why,
    }
}

const RUNS: Question = question(
    "agent-runs",
    "the agent runs",
    "without it no sidecar is shown out and no new pod is held; what is held goes at its deadline",
);
const READY: Question = question(
    "agent-ready",
    "the agent is ready",
    "until then it observes only",
);
const VERSIONS: Question = question(
    "agent-versions",
    "agent, plugin and this program are of one version",
    "they talk to each other; after an upgrade all are replaced together",
);
const MODES: Question = question(
    "agent-modes",
    "the Node says what usher may do",
    "in observe mode everything is decided and nothing is done",
);
const SETTINGS: Question = question(
    "agent-configuration",
    "the configuration in force is that of the file",
    "an older one counts while the file cannot be used",
);
const HOLDER: Question = question(
    "agent-holder",
    "the process that holds starts lives",
    "starts that it held went on when it ended",
);
const LIST: Question = question(
    "agent-kubelet",
    "the agent's list of pods is fresh",
    "pods that came since the last list are not known, and nothing is done to them",
);
const API_SERVER: Question = question(
    "agent-api-server",
    "the agent sees its Node at the API server",
    "a change of the Node's annotations is not seen; what was last known counts",
);
const EVENTS: Question = question(
    "agent-events",
    "Kubernetes Events are told",
    "what usher does is in its log and timeline all the same",
);
const FAILURES: Question = question(
    "agent-failures",
    "nothing failed since the agent started",
    "each of these left a pod as it would be without usher",
);
const TABLES: Question = Question {
    id: "remains-tables",
    category: Category::Remains,
    title: "no pod has a table that nobody looks after",
    why: "its connections wait until the kernel's own deadline; after that the table does nothing",
};

/// All of them.
pub const ALL: &[&Question] = &[
    &RUNS,
    &READY,
    &VERSIONS,
    &MODES,
    &SETTINGS,
    &HOLDER,
    &LIST,
    &API_SERVER,
    &EVENTS,
    &FAILURES,
    &TABLES,
];

/// The kubelet is asked every five minutes at least.
const STALE: Duration = Duration::from_secs(11 * 60);

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The version of this program.
    pub version: String,
    /// What the agent says, or why there is none.
    pub agent: Result<Agent, String>,
    /// Tables of usher in pods that no agent looks after, as `namespace/name` or what is known of them; an error where nobody
    /// could look.
    pub tables: Result<Vec<String>, String>,
}

/// What the agent says.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Its version.
    pub version: String,
    /// How long it has run.
    pub up: Duration,
    /// What it waits for before it is ready.
    pub waits: Vec<String>,
    /// The mode of each capability, and since when where that is known.
    pub modes: Vec<(&'static str, Mode, Option<Duration>)>,
    /// How long ago the kubelet last gave its pods.
    pub listed: Option<Duration>,
    /// How long ago the API server last told of the Node.
    pub node: Watch,
    /// Whether the plugin on the host is that of the agent's image.
    pub plugin: Plugin,
    /// Its metrics.
    pub samples: Vec<Sample>,
}

/// The watch on the own Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// The agent runs without an API server.
    Off,
    /// It lives, and this long ago something came.
    Alive(Option<Duration>),
    /// It broke this long ago.
    Broken(Option<Duration>),
}

/// The plugin's binary on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plugin {
    /// Byte for byte that of the image.
    Same,
    /// Another.
    Other,
    /// There is none.
    Absent,
    /// It cannot be told, and why.
    Unknown(String),
}

/// Judges it.
pub fn judge(found: &Found) -> Vec<Check> {
    let mut checks = match &found.agent {
        Ok(agent) => of_agent(agent, &found.version),
        Err(error) => {
            let mend = "kubectl get pods -n usher -l app.kubernetes.io/name=usher -o wide, and kubectl logs -n usher POD -c agent --previous; where it is not installed: helm install usher";
            let mut checks = vec![RUNS.failed(error, mend)];
            let others = ALL.iter().filter(|one| **one != &RUNS && **one != &TABLES);
            checks.extend(others.map(|one| one.skipped("there is no agent")));
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
        modes(&agent.modes),
        settings(&agent.samples),
        holder(&agent.samples),
        list(agent),
        api_server(agent),
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

fn modes(modes: &[(&'static str, Mode, Option<Duration>)]) -> Check {
    let told: Vec<String> = modes
        .iter()
        .map(|(capability, mode, since)| match since {
            Some(since) => format!("{capability}: {mode} for {}", written(*since)),
            None => format!("{capability}: {mode}"),
        })
        .collect();
    let told = told.join(", ");
    if modes.iter().any(|(_, mode, _)| *mode == Mode::Enforce) {
        MODES.ok(told)
    } else {
        MODES.warning(told, "kubectl annotate node NODE usher.dev/mode=enforce --overwrite, when what it would do is what you want")
    }
}

fn settings(samples: &[Sample]) -> Check {
    let is = sum(samples, "usher_config_valid", &[]) > 0.0;
    if is {
        let readings = sum(samples, "usher_config_reloads_total", &[("result", "ok")]);
        return SETTINGS.ok(format!("read {readings} times"));
    }
    SETTINGS.failed(
        "the agent rejected the file",
        "see node-configuration for file, line and key; the agent takes the corrected file by itself",
    )
}

fn holder(samples: &[Sample]) -> Check {
    let restarts = sum(samples, "usher_holder_exits_total", &[]);
    let is_up = sum(samples, "usher_holder_up", &[]) > 0.0;
    if sum(samples, "usher_start_supported", &[]) == 0.0 {
        return HOLDER.skipped("starts cannot be held here: see kernel-fanotify and node-bundles");
    }
    match (is_up, restarts > 0.0) {
        (true, false) => HOLDER.ok("it runs"),
        (false, false) => HOLDER.ok("it is able to run; it is started when the first pod wants it"),
        (_, true) => HOLDER.warning(
            format!("it ended {restarts} times, and runs now: {is_up}"),
            "kubectl logs -n usher ds/usher -c agent | grep holder; a memory limit that is too small ends it: resources.limits.memory",
        ),
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
        None => LIST.failed("the kubelet has given none yet", mend),
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

fn events(samples: &[Sample]) -> Check {
    let of = |result| sum(samples, "usher_events_total", &[("result", result)]);
    let (sent, dropped, failed) = (of("sent"), of("dropped"), of("failed"));
    let saw = format!("{sent} sent, {dropped} dropped, {failed} failed");
    if failed > sent {
        return EVENTS.warning(
            saw,
            "kubectl auth can-i create events.events.k8s.io --as system:serviceaccount:usher:usher",
        );
    }
    EVENTS.ok(saw)
}

/// What is counted, by which metric with which labels.
type Counted<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn failures(samples: &[Sample]) -> Check {
    let counted: [Counted<'_>; 8] = [
        (
            "sidecars given up",
            "usher_decisions_total",
            &[("decision", "gave-up")],
        ),
        (
            "holds failed",
            "usher_decisions_total",
            &[("decision", "hold-failed")],
        ),
        (
            "starts missed",
            "usher_decisions_total",
            &[("decision", "start-missed")],
        ),
        (
            "attempts failed",
            "usher_quit_attempts_total",
            &[("result", "failed")],
        ),
        (
            "pods or processes not looked at",
            "usher_discovery_errors_total",
            &[],
        ),
        (
            "pods of the kubelet not read",
            "usher_kubelet_bad_pods_total",
            &[],
        ),
        ("timeline not written", "usher_timeline_errors_total", &[]),
        ("log lines dropped", "usher_log_lines_dropped_total", &[]),
    ];
    let counted = counted.map(|(what, name, labels)| (what, sum(samples, name, labels)));
    let there: Vec<String> = counted
        .iter()
        .filter(|(_, count)| *count > 0.0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if there.is_empty() {
        return FAILURES.ok("nothing");
    }
    FAILURES.warning(
        there.join(", "),
        "usher pods, then usher explain POD; usher metrics errors and docs/metrics.md say more",
    )
}

fn tables(tables: &Result<Vec<String>, String>) -> Check {
    match tables {
        Ok(tables) if tables.is_empty() => TABLES.ok("none"),
        Ok(tables) => TABLES.warning(
            tables.join(", "),
            "usher cleanup --dry-run, and usher cleanup where no agent is to come back",
        ),
        Err(error) => TABLES.skipped(error),
    }
}

/// Without what nobody reads.
fn written(time: Duration) -> impl std::fmt::Display {
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}
