//! The reasons of Events: a closed list, so that users can search for them and alert on them.

/// Why an Event is sent. The variant's name is the Event's `reason`.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(const_into_str)]
pub enum Reason {
    WouldQuit,
    SidecarQuit,
    SidecarStays,
    RuntimeUnsupported,
    InvalidAnnotation,
    ConnectionsHeld,
    WouldHold,
    HoldDeadlineExceeded,
    HoldExtended,
    HoldFailed,
    PodQuarantined,
    StartHeld,
    StartReleasedEarly,
    StartMissed,
    StartNotHeld,
    LingerReleasedEarly,
    LingerUnsupported,
    PreStopUnsupported,
    ModeChanged,
    ConfigurationRejected,
    ConfigurationAccepted,
    HoldUnsupported,
    StartHoldUnsupported,
    HostNetnsUnknown,
    #[strum(serialize = "CNIPluginInstallFailed")]
    CniPluginInstallFailed,
    #[strum(serialize = "CNIPluginInstalled")]
    CniPluginInstalled,
    HolderFailed,
    KubeletUnreachable,
    NamespaceReadFailed,
    PodsSkipped,
    EventsDropped,
    StartupTaintRemoved,
    StartupTaintNotRemoved,
}

/// The `type` of an Event. A warning needs an action of the user or the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum EventType {
    Normal,
    Warning,
}

/// The kinds of objects that an Event with a reason may regard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum Target {
    #[strum(serialize = "pod")]
    Pod,
    Node,
    #[strum(serialize = "pod or Node")]
    PodOrNode,
}

/// The fields of an Event that follow from its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    pub event_type: EventType,
    pub target: Target,
    pub action: &'static str,
}

/// The documentation of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    pub when: &'static str,
    pub remedy: &'static str,
}

impl Reason {
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    pub const fn fields(self) -> Fields {
        use EventType::{Normal, Warning};
        use Target::{Node, Pod, PodOrNode};
        let (event_type, target, action) = match self {
            Self::WouldQuit => (Warning, Pod, "Quit"),
            Self::SidecarQuit => (Normal, Pod, "Quit"),
            Self::SidecarStays => (Warning, Pod, "Quit"),
            Self::RuntimeUnsupported => (Warning, Pod, "Quit"),
            Self::InvalidAnnotation => (Warning, PodOrNode, "Configure"),
            Self::ConnectionsHeld => (Normal, Pod, "Hold"),
            Self::WouldHold => (Warning, Pod, "Hold"),
            Self::HoldDeadlineExceeded => (Warning, Pod, "Hold"),
            Self::HoldExtended => (Warning, Pod, "Hold"),
            Self::HoldFailed => (Warning, Pod, "Hold"),
            Self::PodQuarantined => (Warning, Pod, "Quarantine"),
            Self::StartHeld => (Normal, Pod, "HoldStart"),
            Self::StartReleasedEarly => (Warning, Pod, "HoldStart"),
            Self::StartMissed => (Warning, Pod, "HoldStart"),
            Self::StartNotHeld => (Warning, Pod, "HoldStart"),
            Self::LingerReleasedEarly => (Warning, Pod, "Linger"),
            Self::LingerUnsupported => (Warning, Pod, "Linger"),
            Self::PreStopUnsupported => (Warning, Pod, "Linger"),
            Self::ModeChanged => (Normal, Node, "Configure"),
            Self::ConfigurationRejected => (Warning, Node, "Configure"),
            Self::ConfigurationAccepted => (Normal, Node, "Configure"),
            Self::HoldUnsupported => (Warning, Node, "Hold"),
            Self::StartHoldUnsupported => (Warning, Node, "HoldStart"),
            Self::HostNetnsUnknown => (Warning, Node, "Configure"),
            Self::CniPluginInstallFailed => (Warning, Node, "Install"),
            Self::CniPluginInstalled => (Normal, Node, "Install"),
            Self::HolderFailed => (Warning, Node, "HoldStart"),
            Self::KubeletUnreachable => (Warning, Node, "Watch"),
            Self::NamespaceReadFailed => (Warning, Node, "Watch"),
            Self::PodsSkipped => (Warning, Node, "Watch"),
            Self::EventsDropped => (Warning, Node, "Report"),
            Self::StartupTaintRemoved => (Normal, Node, "Taint"),
            Self::StartupTaintNotRemoved => (Warning, Node, "Taint"),
        };
        Fields {
            event_type,
            target,
            action,
        }
    }

    pub const fn meaning(self) -> Meaning {
        let (when, remedy) = match self {
            Self::WouldQuit => (
                "`observe`: every app container has ended for good, and a sidecar is still running",
                "To let usher terminate it, annotate the Node `usher.dev/quit=enforce`; for this pod only, run `usher quit` or \
                 delete the pod",
            ),
            Self::SidecarQuit => (
                "A sidecar ended after usher's request. The note has the step, the time after the app's end and the exit code",
                "Nothing",
            ),
            Self::SidecarStays => (
                "The sidecar is still running, and usher may take no further step; in `observe`: enforce would take none",
                "What the note says: a flag of the sidecar, `usher.dev/sidecars`, or `usher.dev/allow-pod-failure`",
            ),
            Self::RuntimeUnsupported => (
                "The pod's processes are not visible on the node (gVisor, Kata)",
                "Use another RuntimeClass, or end the sidecar from within the pod",
            ),
            Self::InvalidAnnotation => (
                "An annotation or label of usher on the pod, its Namespace or the Node is invalid and is ignored",
                "Correct the value: the note has its place and the expected form",
            ),
            Self::ConnectionsHeld => (
                "usher held connections of the app until the sidecar was ready",
                "Nothing",
            ),
            Self::WouldHold => (
                "`observe`: connections of the app were refused before the sidecar was ready",
                "To let usher hold them, annotate the Node `usher.dev/hold=enforce`",
            ),
            Self::HoldDeadlineExceeded => (
                "The sidecar was not ready at the deadline. usher released the connections; the app may see them refused",
                "Find out why the sidecar starts slowly, or set a longer `usher.dev/hold-deadline`",
            ),
            Self::HoldExtended => (
                "The sidecar was not ready at the deadline. usher continues to hold connections: `usher.dev/on-deadline: closed`",
                "Find out why the sidecar does not become ready",
            ),
            Self::HoldFailed => (
                "usher could not hold the pod's connections, or could not release them before the deadline",
                "The note has the kernel's error; report it unless it is a limit of the node",
            ),
            Self::PodQuarantined => (
                "A system call in the pod's network namespace did not return in time, or the pod's packet filter is so large that \
                 none would. usher leaves the pod alone for a while: a minute, and longer each time, at most an hour",
                "Find out what the pod does to its network: `nft list ruleset` in its namespace. usher ends its sidecars by signal \
                 only, and holds nothing there",
            ),
            Self::StartHeld => (
                "usher held the start of an app until the sidecar was ready",
                "Nothing",
            ),
            Self::StartReleasedEarly => (
                "usher released the start of an app before the sidecar was ready, because the app's probes would have failed",
                "Give its startupProbe or livenessProbe more time",
            ),
            Self::StartMissed => (
                "An app started before usher could hold its start; usher held its connections",
                "Recreate the pod if the app needs its sidecar at start; run `usher check` on this node",
            ),
            Self::StartNotHeld => (
                "usher cannot hold the start of an app as `usher.dev/hold: start` requests",
                "What the note says",
            ),
            Self::LingerReleasedEarly => (
                "A sidecar of a deleted pod received its stop signal before the apps had ended",
                "What the note says",
            ),
            Self::LingerUnsupported => (
                "usher cannot hold the stop signal of a sidecar as `usher.dev/linger` requests; the sidecar is stopped together with the apps",
                "What the note says",
            ),
            Self::PreStopUnsupported => (
                "usher cannot hold the stop signal of an app as `usher.dev/pre-stop` requests; the app is stopped at once",
                "What the note says",
            ),
            Self::ModeChanged => (
                "The Node or the configuration changed the mode of a capability",
                "Nothing",
            ),
            Self::ConfigurationRejected => (
                "The configuration file is invalid; the last valid one stays in use",
                "Correct the ConfigMap: the note has line and key",
            ),
            Self::ConfigurationAccepted => (
                "The configuration file is valid again and in use",
                "Nothing",
            ),
            Self::HostNetnsUnknown => (
                "The host's network namespace is unknown; usher only observes, whatever the mode",
                "Give the agent's pod `hostPID`, `hostNetwork` and the capability `SYS_PTRACE`, as the chart does",
            ),
            Self::HoldUnsupported => (
                "The node's kernel cannot hold connections; pods start unheld",
                "Load the kernel modules that the note names, or set `usher.dev/hold=off`",
            ),
            Self::StartHoldUnsupported => (
                "The node cannot hold starts; usher holds connections instead",
                "Mount the runtime's directory (`--bundle-dir`), or what the note says",
            ),
            Self::CniPluginInstallFailed => (
                "The CNI plugin cannot be installed or updated; without one usher holds only pods that it discovers in time",
                "Correct what the note names: directory, permissions, or the network configuration",
            ),
            Self::CniPluginInstalled => (
                "The CNI plugin is installed after an earlier failure",
                "Nothing",
            ),
            Self::HolderFailed => (
                "The process that holds starts and stop signals exits repeatedly, which releases both; neither is held meanwhile",
                "See the agent's log on this node",
            ),
            Self::KubeletUnreachable => (
                "The kubelet has not listed its pods for a minute; usher does not manage new pods",
                "Check the permission to get `nodes/pods`, the kubelet's address and certificate (`USHER_KUBELET*`)",
            ),
            Self::NamespaceReadFailed => (
                "A Namespace cannot be read. Where it was read before, its last annotations apply; otherwise its pods wait",
                "Check the permission to get `namespaces`, and whether the API server responds: the note has the error",
            ),
            Self::PodsSkipped => (
                "Pods of this node are invalid or too large for usher, which does not manage them",
                "Reduce the arguments, annotations or variables of the pods that the note names, or delete them",
            ),
            Self::EventsDropped => (
                "The queue of Events overflowed: the API server was unavailable or slow, or one namespace has very many",
                "Read the decisions in the agent's log",
            ),
            Self::StartupTaintRemoved => (
                "usher is ready and removed its startup taint from the Node",
                "Nothing",
            ),
            Self::StartupTaintNotRemoved => (
                "usher is ready and cannot remove its startup taint from the Node: no pod is scheduled there",
                "Grant the ServiceAccount the permission to patch its Node, or remove the taint with `kubectl taint`",
            ),
        };
        Meaning { when, remedy }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn reasons_and_actions_are_valid_for_the_api_server() {
        let names: BTreeSet<&str> = Reason::ALL.iter().map(Reason::into_str).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let Fields {
                action, event_type, ..
            } = reason.fields();
            let Meaning { when, remedy } = reason.meaning();
            let name = reason.into_str();
            for word in [name, action] {
                assert!(word.len() <= 128 && word.starts_with(|first: char| first.is_uppercase()));
                assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            }
            assert!(!when.is_empty());
            assert!(
                event_type == EventType::Normal || remedy != "Nothing",
                "{name} is a warning without a remedy"
            );
        }
    }
}
