//! Annotation keys, in one place. [`KNOWN`] has their meanings.

/// The prefix of all keys that usher reads from users.
pub const PREFIX: &str = "usher.dev/";

pub const MODE: &str = "usher.dev/mode";
pub const QUIT: &str = "usher.dev/quit";
pub const HOLD: &str = "usher.dev/hold";
pub const LINGER: &str = "usher.dev/linger";
pub const PRE_STOP: &str = "usher.dev/pre-stop";
pub const HOLD_DEADLINE: &str = "usher.dev/hold-deadline";
pub const ON_DEADLINE: &str = "usher.dev/on-deadline";
pub const HOLD_AGAIN: &str = "usher.dev/hold-again";
pub const HOLD_PORTS: &str = "usher.dev/hold-ports";
pub const SIDECARS: &str = "usher.dev/sidecars";
pub const QUIT_DELAY: &str = "usher.dev/quit-delay";
pub const DRAIN: &str = "usher.dev/drain";
pub const ALLOW_POD_FAILURE: &str = "usher.dev/allow-pod-failure";

/// The objects that an annotation may be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum Holder {
    /// Also as a label.
    Node,
    /// A Namespace, for its pods; as a label as well.
    Namespace,
    #[strum(to_string = "pod")]
    Pod,
}

/// An annotation that usher reads, for people.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub key: &'static str,
    /// The objects that it may be on; the last one has precedence.
    pub on: &'static [Holder],
    /// Its values, or examples of them.
    pub values: &'static [&'static str],
    /// The default, where that is a value.
    pub default: Option<&'static str>,
    pub meaning: &'static str,
}

const MODES: &[&str] = &["observe", "enforce", "off"];
const BOOLEANS: &[&str] = &["true", "false"];
const WAITS: &[&str] = &["500ms", "5s", "1m30s"];
const NODE: &[Holder] = &[Holder::Node];
const PODS: &[Holder] = &[Holder::Namespace, Holder::Pod];

pub const KNOWN: [Known; 16] = [
    Known {
        key: MODE,
        on: NODE,
        values: MODES,
        default: Some("observe"),
        meaning: "The mode of all capabilities on this node; overrides the configuration's `mode` and `modes`",
    },
    Known {
        key: QUIT,
        on: NODE,
        values: MODES,
        default: None,
        meaning: "The mode of quit; overrides `usher.dev/mode`",
    },
    Known {
        key: QUIT,
        on: PODS,
        values: BOOLEANS,
        default: Some("true"),
        meaning: "Whether usher terminates the sidecars",
    },
    Known {
        key: SIDECARS,
        on: &[Holder::Pod],
        values: &[
            "NAME",
            "NAME=SIGINT",
            "NAME=POST :9091/quit",
            "NAME=GET :9091/quit",
            "NAME=app",
        ],
        default: None,
        meaning: "Which containers are sidecars, and how to terminate them; overrides the recipes. A list separated by commas",
    },
    Known {
        key: QUIT_DELAY,
        on: PODS,
        values: WAITS,
        default: Some("0s"),
        meaning: "Wait between the end of the last app and the first request, at most 10 minutes",
    },
    Known {
        key: DRAIN,
        on: PODS,
        values: WAITS,
        default: Some("0s"),
        meaning: "Drain time before a sidecar that supports it is terminated, at most 10 minutes",
    },
    Known {
        key: ALLOW_POD_FAILURE,
        on: PODS,
        values: BOOLEANS,
        default: Some("false"),
        meaning: "Whether usher may terminate a sidecar although its exit code turns a succeeded pod into a failed one",
    },
    Known {
        key: HOLD,
        on: NODE,
        values: MODES,
        default: None,
        meaning: "The mode of hold, for connections and starts; overrides `usher.dev/mode`",
    },
    Known {
        key: HOLD,
        on: PODS,
        values: &["connect", "true", "start", "false"],
        default: Some("connect"),
        meaning: "What waits until the sidecar is ready: the app's connections (`true` means the same), or, with `start`, its first instruction as well",
    },
    Known {
        key: HOLD_DEADLINE,
        on: PODS,
        values: &["10s", "30s", "2m"],
        default: Some("30s"),
        meaning: "How long connections wait at most, 1 second to 10 minutes",
    },
    Known {
        key: ON_DEADLINE,
        on: PODS,
        values: &["open", "closed"],
        default: Some("open"),
        meaning: "What happens at the deadline: `open` releases connections; `closed` continues to hold them, and reports it",
    },
    Known {
        key: HOLD_AGAIN,
        on: PODS,
        values: BOOLEANS,
        default: Some("false"),
        meaning: "Whether connections wait again while a sidecar restarts",
    },
    Known {
        key: HOLD_PORTS,
        on: &[Holder::Pod],
        values: &["NAME=5432", "NAME=5432, NAME=3306"],
        default: None,
        meaning: "Ports on loopback at which its sidecars listen; overrides the recipes. Connections to them wait until the sidecar listens",
    },
    Known {
        key: LINGER,
        on: NODE,
        values: MODES,
        default: None,
        meaning: "The mode of linger; overrides `usher.dev/mode`",
    },
    Known {
        key: LINGER,
        on: PODS,
        values: &["true", "false", "20s"],
        default: None,
        meaning: "Whether sidecars receive their stop signal only after the apps of the deleted pod have ended; a duration limits the delay",
    },
    Known {
        key: PRE_STOP,
        on: PODS,
        values: &["10s", "auto", "false"],
        default: Some("false"),
        meaning: "How long the apps' stop signals are delayed when the pod is deleted, within its grace period; `auto`: until clients are silent",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{
        config::Defaults,
        mode::{DefaultModes, Modes, NodeModes, NodeValues},
        overrides::{NamespaceValues, Tuning, Values},
    };

    fn tuning(namespace: &NamespaceValues, pod: &Values) -> (bool, bool) {
        let read = |namespace, pod| Tuning::read(&Defaults::default(), namespace, pod);
        let (found, bad) = read(namespace, pod);
        let (without, _) = read(&NamespaceValues::default(), &Values::new());
        (bad.is_empty(), found != without)
    }

    /// Whether a value on one thing is taken, and whether it changes anything.
    fn read(on: Holder, key: &str, value: &str) -> (bool, bool) {
        let values: Values = [(key.to_owned(), value.to_owned())].into();
        match on {
            Holder::Node => {
                let node = NodeValues {
                    annotations: values,
                    ..NodeValues::default()
                };
                let found = NodeModes::resolve(DefaultModes::default(), &node);
                (found.invalid.is_empty(), found.modes() != Modes::default())
            }
            Holder::Namespace => {
                let labels = Values::new();
                let annotations = values;
                tuning(
                    &NamespaceValues {
                        annotations,
                        labels,
                    },
                    &Values::new(),
                )
            }
            Holder::Pod => tuning(&NamespaceValues::default(), &values),
        }
    }

    #[test]
    fn places_of_annotations_are_named() {
        let words = [Holder::Node, Holder::Namespace, Holder::Pod].map(<&str>::from);
        assert_eq!(words, ["Node", "Namespace", "pod"]);
    }

    #[test]
    fn documented_annotations_behave_as_documented() {
        for known in &KNOWN {
            for on in known.on {
                let reads = |value: &str| read(*on, known.key, value);
                let mut changes = 0;
                for value in known.values {
                    let (taken, changed) = reads(&value.replace("NAME", "name"));
                    assert!(taken, "{} {value}", known.key);
                    changes += usize::from(changed);
                }
                assert!(changes > 0, "{} on {on:?} does nothing", known.key);
                assert!(!reads("no value").0, "{} takes anything", known.key);
                if let Some(default) = known.default {
                    assert_eq!(reads(default), (true, false), "{} {default}", known.key);
                }
            }
        }
    }
}
