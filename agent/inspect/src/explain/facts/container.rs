//! One container: the part of its spec that matters to a mesh, and its runs.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{list, text, time, words};

const INIT: &str = "spec.initContainers";
pub const STARTUP_PROBE: &str = "startupProbe";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Container {
    pub name: String,
    /// The path in the pod: `spec.containers[0]`.
    pub place: String,
    pub image: String,
    pub words: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// `runAsUser` of its own security context.
    pub user: Option<u32>,
    pub ports: Vec<Port>,
    pub probes: Vec<Probe>,
    pub has_post_start: bool,
    /// The command of the `postStart` hook, if the hook is a command.
    pub post_start: Vec<String>,
    pub is_native: bool,
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Empty for a port without a name.
    pub name: String,
    pub number: u16,
    /// TCP is the API's default.
    pub is_tcp: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The field of the spec: `readinessProbe`.
    pub field: &'static str,
    pub act: Act,
    pub initial_delay: Duration,
    pub period: Duration,
    /// Failures in a row that count as a failure of the container.
    pub failures: u32,
}

/// The action of a probe. A port is 0 if its name is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Http {
        port: u16,
        path: String,
    },
    Tcp {
        port: u16,
    },
    Grpc {
        port: u16,
    },
    /// `exec`, or an unknown action.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    pub state: State,
    pub last: Option<Ended>,
    /// Also true for a running container without a readiness probe.
    pub ready: bool,
    pub restarts: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// With the reason, a word or empty.
    Waiting(String),
    /// With the start, in milliseconds.
    Running(Option<u64>),
    Ended(Ended),
}

/// Why a container does not run, by the kubelet's
/// [reason](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/kubelet/images/types.go), an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The kubelet is creating the container, or waits for an earlier one.
    Starting,
    /// The image is not available.
    Image,
    /// The container ended, and the kubelet delays its restart.
    CrashLoop,
    /// The kubelet or the runtime cannot create the container.
    Failed,
}

impl Waiting {
    fn of(reason: &str) -> Self {
        match reason {
            "" | "ContainerCreating" | "PodInitializing" => Self::Starting,
            "ErrImagePull"
            | "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => Self::Image,
            "CrashLoopBackOff" => Self::CrashLoop,
            _ => Self::Failed,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting(String::new())
    }
}

impl State {
    fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Ended(ended) => Some(ended),
            Self::Waiting(_) | Self::Running(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// 128 + n for signal n.
    pub code: i64,
    /// `Completed`, `Error`, `OOMKilled`.
    pub reason: String,
    pub started_ms: Option<u64>,
    pub finished_ms: Option<u64>,
}

impl Container {
    pub(super) fn parse(spec: &Value, statuses: &[Value], place: String) -> Self {
        let name = text(&spec["name"]);
        let ports: Vec<Port> = list(&spec["ports"]).iter().map(port).collect();
        let hook = &spec["lifecycle"]["postStart"];
        let user = spec["securityContext"]["runAsUser"].as_u64();
        let mut statuses = statuses.iter();
        Self {
            image: text(&spec["image"]),
            words: [words(&spec["command"]), words(&spec["args"])].concat(),
            env: variables(&spec["env"]),
            user: user.and_then(|user| user.try_into().ok()),
            probes: [STARTUP_PROBE, "livenessProbe", "readinessProbe"]
                .into_iter()
                .filter_map(|field| probe(field, &spec[field], &ports))
                .collect(),
            ports,
            has_post_start: hook.is_object(),
            post_start: words(&hook["exec"]["command"]),
            is_native: place.starts_with(INIT) && spec["restartPolicy"] == "Always",
            status: statuses
                .find(|status| status["name"] == name.as_str())
                .map(status)
                .unwrap_or_default(),
            place,
            name,
        }
    }

    /// Whether the container is an init container; native sidecars are included.
    pub fn is_init(&self) -> bool {
        self.place.starts_with(INIT)
    }

    pub fn path(&self, field: &str) -> String {
        format!("{}.{field}", self.place)
    }

    pub fn env_path(&self, name: &str) -> String {
        format!("{}.env[{name}]", self.place)
    }

    pub fn status_path(&self) -> String {
        let prefix = if self.is_init() { "initC" } else { "c" };
        format!("status.{prefix}ontainerStatuses[{}]", self.name)
    }

    /// When the newest run started.
    pub fn started_ms(&self) -> Option<u64> {
        match &self.status.state {
            State::Running(since_ms) => *since_ms,
            State::Ended(ended) => ended.started_ms,
            State::Waiting(_) => self.status.last.as_ref()?.started_ms,
        }
    }

    pub fn runs(&self) -> bool {
        matches!(self.status.state, State::Running(_))
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.status.state, State::Waiting(_))
    }

    pub fn waiting(&self) -> Option<Waiting> {
        match &self.status.state {
            State::Waiting(reason) => Some(Waiting::of(reason)),
            State::Running(_) | State::Ended(_) => None,
        }
    }

    /// The newest run that ended: the current or the previous one.
    pub fn newest_end(&self) -> Option<&Ended> {
        self.status.state.ended().or(self.status.last.as_ref())
    }

    /// The known runs that ended, oldest first.
    pub fn ends(&self) -> impl Iterator<Item = &Ended> {
        self.status.last.iter().chain(self.status.state.ended())
    }

    /// The value of a flag, as `--name value` or `--name=value`.
    pub fn flag(&self, name: &str) -> Option<&str> {
        let mut words = self.words.iter().enumerate();
        words.find_map(|(index, word)| {
            let flag = word.strip_prefix('-')?.trim_start_matches('-');
            match flag.strip_prefix(name.trim_start_matches('-'))? {
                "" => self.words.get(index + 1).map(String::as_str),
                rest => rest.strip_prefix('='),
            }
        })
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }
}

fn variables(env: &Value) -> BTreeMap<String, String> {
    let variables = list(env).iter().filter_map(|variable| {
        let value = variable["value"].as_str()?;
        Some((text(&variable["name"]), value.to_owned()))
    });
    variables.collect()
}

fn port(port: &Value) -> Port {
    Port {
        name: text(&port["name"]),
        number: number(&port["containerPort"]),
        is_tcp: port["protocol"].as_str().is_none_or(|name| name == "TCP"),
    }
}

fn number(value: &Value) -> u16 {
    u16::try_from(value.as_u64().unwrap_or_default()).unwrap_or_default()
}

fn probe(field: &'static str, probe: &Value, ports: &[Port]) -> Option<Probe> {
    let resolve = |port: &Value| match port.as_str() {
        Some(name) => {
            let named = ports.iter().find(|port| port.name == name);
            named.map_or(0, |port| port.number)
        }
        None => number(port),
    };
    let action = |name: &str| probe[name].is_object().then(|| &probe[name]);
    let act = if let Some(http) = action("httpGet") {
        let (port, path) = (resolve(&http["port"]), text(&http["path"]));
        Act::Http { port, path }
    } else if let Some(tcp) = action("tcpSocket") {
        let port = resolve(&tcp["port"]);
        Act::Tcp { port }
    } else if let Some(grpc) = action("grpc") {
        let port = number(&grpc["port"]);
        Act::Grpc { port }
    } else {
        Act::Other
    };
    let seconds = |key: &str, default: u64| {
        let seconds = probe[key].as_u64().filter(|seconds| *seconds > 0);
        // The API's maximum.
        Duration::from_secs(seconds.unwrap_or(default).min(i32::MAX as u64))
    };
    let failures = probe["failureThreshold"].as_u64();
    let failures = failures.and_then(|failures| u32::try_from(failures).ok());
    probe.is_object().then(|| Probe {
        field,
        act,
        initial_delay: seconds("initialDelaySeconds", 0),
        period: seconds("periodSeconds", 10),
        failures: failures.filter(|failures| *failures > 0).unwrap_or(3),
    })
}

fn status(status: &Value) -> Status {
    let (state, last) = (&status["state"], &status["lastState"]);
    let newest = match ended(state) {
        Some(ended) => State::Ended(ended),
        None if state["running"].is_object() => {
            State::Running(time(&state["running"]["startedAt"]))
        }
        None => State::Waiting(text(&state["waiting"]["reason"])),
    };
    Status {
        state: newest,
        last: ended(last),
        ready: status["ready"] == true,
        restarts: status["restartCount"].as_u64().unwrap_or_default(),
    }
}

fn ended(state: &Value) -> Option<Ended> {
    let ended = &state["terminated"];
    // The kubelet writes 1970 for a container that could not start.
    let known = |field: &str| time(&ended[field]).filter(|at| *at > 0);
    ended.is_object().then(|| Ended {
        code: ended["exitCode"].as_i64().unwrap_or_default(),
        reason: text(&ended["reason"]),
        started_ms: known("startedAt"),
        finished_ms: known("finishedAt"),
    })
}
