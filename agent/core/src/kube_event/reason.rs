//! The reasons of Events: a closed list, so that people can search for them and alert on them.

/// Why there is an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Observe mode: a sidecar would be asked to quit.
    WouldQuit,
    /// A sidecar ended as it was asked.
    SidecarQuit,
    /// A sidecar of a finished pod is left running.
    SidecarStays,
    /// A pod's processes cannot be seen.
    Unsupported,
    /// An annotation or label cannot be used.
    BadAnnotation,
    /// Connections waited until the sidecar was ready.
    ConnectionsHeld,
    /// Observe mode: connections were refused that would have waited.
    WouldHold,
    /// Connections were let go before the sidecar was ready.
    HoldDeadline,
    /// Connections wait beyond the deadline, as the user chose.
    HoldStaysShut,
    /// Connections could not be made to wait.
    HoldFailed,
    /// An app's start waited until the sidecar was ready.
    StartHeld,
    /// An app's start was let go before its probes would have failed.
    StartLimit,
    /// An app had started before that could be held.
    StartMissed,
    /// An app's start is not held although that was asked for.
    StartNotHeld,
    /// The Node's annotations changed what usher does.
    ModeChanged,
    /// The configuration file is broken.
    ConfigurationRejected,
    /// It is good again.
    ConfigurationTaken,
    /// The node cannot hold connections.
    HoldUnsupported,
    /// The node cannot hold starts.
    StartUnsupported,
    /// The CNI plugin cannot be installed.
    PluginNotInstalled,
    /// It could, after all.
    PluginInstalled,
    /// The process that holds starts does not stay.
    HolderFails,
    /// The kubelet does not give its pods.
    KubeletUnreachable,
    /// Events were lost.
    EventsDropped,
    /// The startup taint is off the Node.
    StartupTaintRemoved,
    /// The startup taint cannot be taken off the Node.
    StartupTaintStays,
}

/// Whether somebody has to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// For whoever wants to know.
    Normal,
    /// Somebody has something to do.
    Warning,
}

impl Importance {
    /// The Event's type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an Event can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// A pod.
    Pod,
    /// The Node.
    Node,
    /// Either.
    Both,
}

/// What a reason means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// Its name, as in the Event.
    pub name: &'static str,
    /// The Event's type.
    pub importance: Importance,
    /// What it is about.
    pub on: On,
    /// The Event's action.
    pub action: &'static str,
    /// When there is one.
    pub when: &'static str,
    /// What to do.
    pub cure: &'static str,
}

macro_rules! meanings {
    ($($reason:ident, $importance:ident, $on:ident, $action:literal, $when:literal, $cure:literal;)*) => {
        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// What it means.
            pub const fn meaning(self) -> Meaning {
                match self {
                    $(Self::$reason => Meaning {
                        name: stringify!($reason),
                        importance: Importance::$importance,
                        on: On::$on,
                        action: $action,
                        when: $when,
                        cure: $cure,
                    },)*
                }
            }
        }
    };
}

meanings! {
    WouldQuit, Normal, Pod, "Quit",
        "`observe`: every app of the pod has ended for good, and a sidecar runs on",
        "Annotate the Node `usher.dev/quit=enforce` to have it done; end this one by hand or delete the pod";
    SidecarQuit, Normal, Pod, "Quit",
        "A sidecar ended as usher asked it to, with step, time after the app's end and exit code",
        "Nothing";
    SidecarStays, Warning, Pod, "Quit",
        "Every step was tried or may not be taken, and the sidecar runs on",
        "What the note says: a flag of the sidecar, `usher.dev/sidecars`, or `usher.dev/spoil`";
    Unsupported, Warning, Pod, "Quit",
        "The pod's processes cannot be seen from the node (gVisor, Kata)",
        "Use another RuntimeClass, or end the sidecar from within the pod";
    BadAnnotation, Warning, Both, "Configure",
        "An annotation or label of usher on the pod, its Namespace or the Node cannot be used; it counts as absent",
        "Correct the value: the note says where it stands and what is expected";
    ConnectionsHeld, Normal, Pod, "Hold",
        "Connections of the app waited for the sidecar and were let go",
        "Nothing";
    WouldHold, Normal, Pod, "Hold",
        "`observe`: connections of the app were refused before the sidecar was ready",
        "Annotate the Node `usher.dev/hold=enforce` to have them wait";
    HoldDeadline, Warning, Pod, "Hold",
        "The deadline came before the sidecar was ready; connections go and may be refused",
        "See why the sidecar is slow; a longer `usher.dev/hold-deadline`";
    HoldStaysShut, Warning, Pod, "Hold",
        "The deadline came, and connections wait on as `usher.dev/on-deadline: closed` asks",
        "See why the sidecar does not become ready";
    HoldFailed, Warning, Pod, "Hold",
        "Connections of the pod could not be made to wait, and go; or could not be let go, and wait until the deadline at most",
        "The note has the kernel's answer; report it if it is not one of the node's limits";
    StartHeld, Normal, Pod, "HoldStart",
        "The start of an app waited until the sidecar was ready",
        "Nothing";
    StartLimit, Warning, Pod, "HoldStart",
        "The start of an app was let go before the sidecar was ready, since its probes would have failed",
        "Give its startupProbe or livenessProbe more time";
    StartMissed, Warning, Pod, "HoldStart",
        "An app had started before that could be held; its connections waited",
        "Make the pod anew if it needs its sidecar at its start; look whether the agent runs well on this node";
    StartNotHeld, Warning, Pod, "HoldStart",
        "The start of an app is not held although `usher.dev/hold: start` asks for it",
        "What the note says";
    ModeChanged, Normal, Node, "Configure",
        "The Node's annotations changed what usher does on the node",
        "Nothing";
    ConfigurationRejected, Warning, Node, "Configure",
        "The configuration file is broken; what counted before goes on to count",
        "Correct the ConfigMap: the note has line and key";
    ConfigurationTaken, Normal, Node, "Configure",
        "The configuration file is good again",
        "Nothing";
    HoldUnsupported, Warning, Node, "Hold",
        "The node's kernel cannot hold connections; pods start unheld",
        "Load the kernel modules that the note names, or set `usher.dev/hold=off`";
    StartUnsupported, Warning, Node, "HoldStart",
        "The node cannot hold starts; where that is asked for connections wait instead",
        "Mount the runtime's directory (`--bundle-dir`), or what the note says";
    PluginNotInstalled, Warning, Node, "Install",
        "The CNI plugin cannot be installed; only pods that the agent finds in time are held",
        "Correct what the note says: directory, rights, or the network configuration";
    PluginInstalled, Normal, Node, "Install",
        "The CNI plugin is installed after it could not be",
        "Nothing";
    HolderFails, Warning, Node, "HoldStart",
        "The process that holds starts ended again and again; starts are not held meanwhile",
        "See the agent's log on this node";
    KubeletUnreachable, Warning, Node, "Watch",
        "The kubelet has not given its pods for a minute; new pods are not dealt with",
        "The right to get `nodes/pods`, the kubelet's address and certificate (`USHER_KUBELET*`)";
    EventsDropped, Warning, Node, "Report",
        "More Events than could be kept came while the API server was away or slow",
        "Read the decisions in the agent's log";
    StartupTaintRemoved, Normal, Node, "Taint",
        "usher is ready and has taken its startup taint off the Node",
        "Nothing";
    StartupTaintStays, Warning, Node, "Taint",
        "usher is ready and cannot take its startup taint off the Node: no pod is scheduled there",
        "Give the ServiceAccount the right to patch its Node, or remove the taint by hand";
}

impl Reason {
    /// Its name, as in the Event.
    pub const fn as_str(self) -> &'static str {
        self.meaning().name
    }

    /// The Event's type.
    pub const fn importance(self) -> Importance {
        self.meaning().importance
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn they_are_what_the_api_server_takes() {
        let names: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let Meaning {
                name,
                action,
                when,
                cure,
                importance,
                ..
            } = reason.meaning();
            for word in [name, action] {
                assert!(word.len() <= 128 && word.starts_with(|first: char| first.is_uppercase()));
                assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            }
            assert!(!when.is_empty());
            // Whoever is warned is told what to do.
            assert!(
                importance == Importance::Normal || cure != "Nothing",
                "{name}"
            );
        }
    }
}
