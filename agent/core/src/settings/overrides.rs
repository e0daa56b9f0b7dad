//! The settings of one pod: quit, hold, linger and pre-stop.
//!
//! The pod's annotation overrides the Namespace's annotation, which overrides the Namespace's label of the same key,
//! which overrides the configuration's default. An invalid value is reported and ignored.

mod hold;
mod linger;
mod ports;
mod pre_stop;

use std::{collections::BTreeMap, time::Duration};

pub use self::{hold::HoldKind, linger::LingerKind, pre_stop::PreStop};
use crate::{
    base::duration,
    pod::spec::is_container_name,
    recipe::step::{self, Method, Request, Signal, Step},
    settings::{
        annotation,
        config::{Defaults, LONGEST_WAIT, OnDeadline, SHORTEST_HOLD},
    },
};

/// Limit of the containers that an annotation names.
const NAMED: usize = 32;

/// The settings that apply to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// Whether usher terminates its sidecars.
    pub quit: bool,
    /// The delay between the end of the last app and the first request.
    pub quit_delay: Duration,
    /// How long its sidecars drain first, where they can.
    pub drain: Duration,
    /// Whether usher may take a step that makes the pod fail.
    pub allow_pod_failure: bool,
    /// The containers that the pod's annotation names.
    pub named: BTreeMap<String, Named>,
    /// What is held until its sidecars are ready.
    pub hold: HoldKind,
    pub hold_deadline: Duration,
    pub on_deadline: OnDeadline,
    /// Whether connections are held again while a sidecar restarts.
    pub hold_again: bool,
    /// The ports on loopback that the pod declares for its sidecars, by name.
    pub hold_ports: BTreeMap<String, Vec<u16>>,
    /// Whether its sidecars outlive its apps when it is deleted.
    pub linger: LingerKind,
    /// How long the stop signals of its apps are held when it is deleted.
    pub pre_stop: Option<PreStop>,
}

/// The role of a container in a pod's annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// An app, regardless of recipes.
    App,
    /// A sidecar that this step terminates.
    Sidecar(Step),
}

/// An invalid annotation or label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidAnnotation {
    pub place: Place,
    pub key: &'static str,
    /// The beginning of its value.
    pub value: String,
    pub expected: &'static str,
}

/// The object with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Pod,
    Namespace,
    NamespaceLabel,
}

impl Place {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "annotation",
            Self::Namespace => "annotation of the Namespace",
            Self::NamespaceLabel => "label of the Namespace",
        }
    }
}

/// Keys and values of one place.
pub type Values = BTreeMap<String, String>;

/// usher's keys on a Namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespaceValues {
    pub annotations: Values,
    pub labels: Values,
}

const BOOLEAN: &str = "\"true\" or \"false\"";
const WAIT: &str = "a duration of at most 10m, like 500ms, 5s or 1m30s";
const HOLD: &str = "\"connect\", \"true\", \"start\" or \"false\"";
const DEADLINE: &str = "a duration of 1s to 10m, like 10s or 1m30s";
const ON_DEADLINE: &str = "\"open\" or \"closed\"";
const PORTS: &str = "a list like NAME=5432, NAME=3306 of at most 16 ports";
const LINGER: &str = "\"true\", \"false\" or a duration of 1s to 1h, like 20s";
const PRE_STOP: &str = "\"auto\", \"false\" or a duration of 1s to 10m, like 10s";
const SIDECARS: &str = "a list like NAME, NAME=SIGTERM, NAME=POST :9091/quit, NAME=app";

impl Tuning {
    pub fn read(
        defaults: &Defaults,
        namespace: &NamespaceValues,
        pod: &Values,
    ) -> (Self, Vec<InvalidAnnotation>) {
        let everywhere = [
            (Place::Pod, pod),
            (Place::Namespace, &namespace.annotations),
            (Place::NamespaceLabel, &namespace.labels),
        ];
        // Container names are valid only in the pod's own annotations.
        let pod_only = &everywhere[..1];
        let wait = |text: &str| duration::parse_up_to(text, LONGEST_WAIT).ok();
        let mut bad = Vec::new();
        let boolean = |text: &str| text.parse().ok();
        let mut bools =
            |key, default| first(&everywhere, key, BOOLEAN, boolean, &mut bad).unwrap_or(default);
        let quit = bools(annotation::QUIT, defaults.quit);
        let allow_pod_failure = bools(annotation::ALLOW_POD_FAILURE, defaults.allow_pod_failure);
        let hold_again = bools(annotation::HOLD_AGAIN, defaults.hold_again);
        let mut waits =
            |key, default| first(&everywhere, key, WAIT, wait, &mut bad).unwrap_or(default);
        let quit_delay = waits(annotation::QUIT_DELAY, defaults.quit_delay);
        let drain = waits(annotation::DRAIN, defaults.drain);
        let hold = first(&everywhere, annotation::HOLD, HOLD, hold::read, &mut bad);
        let key = annotation::HOLD_DEADLINE;
        let hold_deadline = first(&everywhere, key, DEADLINE, deadline, &mut bad);
        let key = annotation::ON_DEADLINE;
        let read = |text: &str| text.parse().ok();
        let on_deadline = first(&everywhere, key, ON_DEADLINE, read, &mut bad);
        let key = annotation::HOLD_PORTS;
        let hold_ports = first(pod_only, key, PORTS, ports::read, &mut bad);
        let key = annotation::LINGER;
        let linger = first(&everywhere, key, LINGER, linger::read, &mut bad);
        let key = annotation::PRE_STOP;
        let pre_stop = first(&everywhere, key, PRE_STOP, pre_stop::read, &mut bad);
        let named = first(pod_only, annotation::SIDECARS, SIDECARS, named, &mut bad);
        let tuning = Self {
            quit,
            quit_delay,
            drain,
            allow_pod_failure,
            named: named.unwrap_or_default(),
            hold: hold.unwrap_or_else(|| defaults.hold.into()),
            hold_deadline: hold_deadline.unwrap_or(defaults.hold_deadline),
            on_deadline: on_deadline.unwrap_or(defaults.on_deadline),
            hold_again,
            hold_ports: hold_ports.unwrap_or_default(),
            linger: linger.unwrap_or_default(),
            pre_stop: pre_stop.flatten(),
        };
        (tuning, bad)
    }
}

/// The first valid value of `key`.
fn first<T>(
    places: &[(Place, &Values)],
    key: &'static str,
    expected: &'static str,
    read: impl Fn(&str) -> Option<T>,
    bad: &mut Vec<InvalidAnnotation>,
) -> Option<T> {
    for (place, values) in places {
        let Some(text) = values.get(key) else {
            continue;
        };
        let value = read(text);
        if value.is_some() {
            return value;
        }
        bad.push(InvalidAnnotation {
            place: *place,
            key,
            value: text.chars().take(64).collect(),
            expected,
        });
    }
    None
}

fn deadline(text: &str) -> Option<Duration> {
    let time = duration::parse_up_to(text, LONGEST_WAIT).ok()?;
    (time >= SHORTEST_HOLD).then_some(time)
}

/// Parses `NAME`, `NAME=SIGNAL`, `NAME=METHOD :PORT/PATH` and `NAME=app`, separated by commas. One invalid entry
/// makes the whole list invalid: half a list may be the wrong half.
fn named(text: &str) -> Option<BTreeMap<String, Named>> {
    let entries = text.split(',').map(str::trim);
    let entries: Vec<&str> = entries.filter(|entry| !entry.is_empty()).collect();
    if entries.len() > NAMED {
        return None;
    }
    let mut all = BTreeMap::new();
    for entry in entries {
        let (name, how) = match entry.split_once('=') {
            Some((name, how)) => (name.trim(), how_to_end(how.trim())?),
            None => (entry, Named::Sidecar(Step::signal(Signal::Term))),
        };
        if !is_container_name(name) || all.insert(name.to_owned(), how).is_some() {
            return None;
        }
    }
    Some(all)
}

fn how_to_end(how: &str) -> Option<Named> {
    if how == "app" {
        return Some(Named::App);
    }
    let signal = Signal::NAMED
        .into_iter()
        .find(|signal| signal.into_str() == how);
    if let Some(signal) = signal {
        return Some(Named::Sidecar(Step::signal(signal)));
    }
    let (method, rest) = how.split_once(' ')?;
    let method = [Method::Get, Method::Post]
        .into_iter()
        .find(|known| known.into_str() == method)?;
    let rest = rest.trim().strip_prefix(':')?;
    let slash = rest.find('/')?;
    let (port, path) = rest.split_at(slash);
    let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
    step::is_path(path).then(|| {
        Named::Sidecar(Step::Request(Request {
            method,
            port,
            path: path.to_owned(),
            headers: Vec::new(),
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn read(pod: &[(&str, &str)], namespace: &NamespaceValues) -> (Tuning, Vec<InvalidAnnotation>) {
        Tuning::read(&Defaults::default(), namespace, &values(pod))
    }

    #[test]
    fn most_specific_setting_applies() {
        let namespace = NamespaceValues {
            annotations: values(&[("usher.dev/quit-delay", "3s")]),
            labels: values(&[("usher.dev/quit", "false"), ("usher.dev/quit-delay", "9s")]),
        };
        let (tuning, bad) = read(&[], &namespace);
        assert!(!tuning.quit && bad.is_empty());
        assert_eq!(tuning.quit_delay, Duration::from_secs(3));
        let pod = [("usher.dev/quit", "true"), ("usher.dev/drain", "1m")];
        let (tuning, bad) = read(&pod, &namespace);
        assert!(tuning.quit && bad.is_empty());
        assert_eq!(tuning.drain, Duration::from_secs(60));
        let (tuning, _) = read(&[], &NamespaceValues::default());
        assert!(tuning.quit && !tuning.allow_pod_failure && tuning.named.is_empty());
    }

    #[test]
    fn invalid_setting_is_named_and_the_next_one_applies() {
        let namespace = NamespaceValues {
            annotations: values(&[("usher.dev/quit", "false")]),
            labels: Values::new(),
        };
        let (tuning, bad) = read(&[("usher.dev/quit", "no")], &namespace);
        assert!(!tuning.quit);
        assert_eq!(
            (bad[0].key, bad[0].value.as_str()),
            ("usher.dev/quit", "no")
        );
        for (key, value) in [
            ("usher.dev/quit-delay", "11m"),
            ("usher.dev/drain", "soon"),
            ("usher.dev/allow-pod-failure", "TRUE"),
            ("usher.dev/sidecars", "a=SIGKILL"),
        ] {
            let (tuning, bad) = read(&[(key, value)], &NamespaceValues::default());
            assert_eq!(bad.len(), 1, "{key}");
            assert_eq!(tuning, read(&[], &NamespaceValues::default()).0, "{key}");
        }
    }

    #[test]
    fn hold_may_be_requested_in_any_place() {
        let start = || values(&[("usher.dev/hold", "start")]);
        let annotated = NamespaceValues {
            annotations: start(),
            labels: Values::new(),
        };
        let labelled = NamespaceValues {
            annotations: Values::new(),
            labels: start(),
        };
        let nothing = NamespaceValues::default();
        let hold = |pod: &[(&str, &str)], namespace| read(pod, namespace).0.hold;
        assert_eq!(hold(&[], &nothing), HoldKind::Connect);
        assert_eq!(
            hold(&[("usher.dev/hold", "start")], &nothing),
            HoldKind::Start
        );
        for namespace in [&annotated, &labelled] {
            assert_eq!(hold(&[], namespace), HoldKind::Start);
            let kind = |value| hold(&[("usher.dev/hold", value)], namespace);
            assert_eq!(kind("true"), HoldKind::Connect);
            assert_eq!(kind("false"), HoldKind::No);
            // What cannot be used counts as if it were absent.
            assert_eq!(kind("begin"), HoldKind::Start);
        }
    }

    #[test]
    fn sidecars_by_name() {
        let list = "a, b=SIGINT,c=POST :9091/quit?x=1, d=GET :1/, e=app,";
        let found: Vec<String> = named(list)
            .unwrap()
            .into_iter()
            .map(|(name, named)| match named {
                Named::App => format!("{name} app"),
                Named::Sidecar(step) => format!("{name} {step}"),
            })
            .collect();
        let expected = [
            "a SIGTERM",
            "b SIGINT",
            "c POST :9091/quit?x=1",
            "d GET :1/",
            "e app",
        ];
        assert_eq!(found, expected);
        for bad in [
            "a=",
            "A",
            "a=term",
            "a,a",
            "a=POST 9091/quit",
            "a=POST :0/quit",
            "a=POST :70000/quit",
            "a=POST :9091",
            "a=PUT :9091/",
            "a=POST :9091/a b",
            "a b",
        ] {
            assert_eq!(named(bad), None, "{bad}");
        }
        assert_eq!(named(""), Some(BTreeMap::new()));
        let many = |number: usize| {
            (0..number)
                .map(|one| format!("s{one},"))
                .collect::<String>()
        };
        assert_eq!(named(&many(NAMED)).unwrap().len(), NAMED);
        assert_eq!(named(&many(NAMED + 1)), None);
    }
}
