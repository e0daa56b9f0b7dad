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
    HoldStaysClosed,
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
    StartUnsupported,
    HostUnknown,
    #[strum(serialize = "CNIPluginInstallFailed")]
    CniPluginInstallFailed,
    #[strum(serialize = "CNIPluginInstalled")]
    CniPluginInstalled,
    StartHolderFailed,
    KubeletUnreachable,
    NamespaceUnread,
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

/// The fields of an Event that follow from its reason, and its documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    pub event_type: EventType,
    pub target: Target,
    /// The Event's `action`.
    pub action: &'static str,
    pub when: &'static str,
    pub remedy: &'static str,
}

impl Reason {
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The Event's fields and documentation.
    pub const fn meaning(self) -> Meaning {
        use EventType::{Normal, Warning};
        use Target::{Node, Pod, PodOrNode};
        let (event_type, target, action, when, remedy) = match self {
            Self::WouldQuit => (
                Warning,
                Pod,
                "Quit",
                "`observe`: every app container has ended for good, and a sidecar is still running",
                "To let usher terminate it, annotate the Node `usher.dev/quit=enforce`; for this pod only, run `usher quit` or \
                 delete the pod",
            ),
            Self::SidecarQuit => (
                Normal,
                Pod,
                "Quit",
                "A sidecar ended after usher's request. The note has the step, the time after the app's end and the exit code",
                "Nothing",
            ),
            Self::SidecarStays => (
                Warning,
                Pod,
                "Quit",
                "The sidecar is still running after every permitted step",
                "What the note says: a flag of the sidecar, `usher.dev/sidecars`, or `usher.dev/spoil`",
            ),
            Self::RuntimeUnsupported => (
                Warning,
                Pod,
                "Quit",
                "The pod's processes are not visible on the node (gVisor, Kata)",
                "Use another RuntimeClass, or end the sidecar from within the pod",
            ),
            Self::InvalidAnnotation => (
                Warning,
                PodOrNode,
                "Configure",
                "An annotation or label of usher on the pod, its Namespace or the Node is invalid and is ignored",
                "Correct the value: the note has its place and the expected form",
            ),
            Self::ConnectionsHeld => (
                Normal,
                Pod,
                "Hold",
                "usher held connections of the app until the sidecar was ready",
                "Nothing",
            ),
            Self::WouldHold => (
                Warning,
                Pod,
                "Hold",
                "`observe`: connections of the app were refused before the sidecar was ready",
                "To let usher hold them, annotate the Node `usher.dev/hold=enforce`",
            ),
            Self::HoldDeadlineExceeded => (
                Warning,
                Pod,
                "Hold",
                "The sidecar was not ready at the deadline. usher released the connections; the app may see them refused",
                "Find out why the sidecar starts slowly, or set a longer `usher.dev/hold-deadline`",
            ),
            Self::HoldStaysClosed => (
                Warning,
                Pod,
                "Hold",
                "The sidecar was not ready at the deadline. usher continues to hold connections: `usher.dev/on-deadline: closed`",
                "Find out why the sidecar does not become ready",
            ),
            Self::HoldFailed => (
                Warning,
                Pod,
                "Hold",
                "usher could not hold the pod's connections, or could not release them before the deadline",
                "The note has the kernel's error; report it unless it is a limit of the node",
            ),
            Self::PodQuarantined => (
                Warning,
                Pod,
                "Quarantine",
                "A system call in the pod's network namespace did not return in time, or the pod's packet filter is so large that \
                 none would. usher leaves the pod alone for a while: a minute, and longer each time",
                "Find out what the pod does to its network: `nft list ruleset` in its namespace. usher ends its sidecars by signal \
                 only, and holds nothing there",
            ),
            Self::StartHeld => (
                Normal,
                Pod,
                "HoldStart",
                "usher held the start of an app until the sidecar was ready",
                "Nothing",
            ),
            Self::StartReleasedEarly => (
                Warning,
                Pod,
                "HoldStart",
                "usher released the start of an app before the sidecar was ready, because the app's probes would have failed",
                "Give its startupProbe or livenessProbe more time",
            ),
            Self::StartMissed => (
                Warning,
                Pod,
                "HoldStart",
                "An app started before usher could hold its start; usher held its connections",
                "Recreate the pod if the app needs its sidecar at start; run `usher check` on this node",
            ),
            Self::StartNotHeld => (
                Warning,
                Pod,
                "HoldStart",
                "usher cannot hold the start of an app as `usher.dev/hold: start` requests",
                "What the note says",
            ),
            Self::LingerReleasedEarly => (
                Warning,
                Pod,
                "Linger",
                "A sidecar of a deleted pod received its stop signal before the apps had ended",
                "What the note says",
            ),
            Self::LingerUnsupported => (
                Warning,
                Pod,
                "Linger",
                "usher cannot hold the stop signal of a sidecar as `usher.dev/linger` requests; the sidecar is stopped together with the apps",
                "What the note says",
            ),
            Self::PreStopUnsupported => (
                Warning,
                Pod,
                "Linger",
                "usher cannot hold the stop signal of an app as `usher.dev/pre-stop` requests; the app is stopped at once",
                "What the note says",
            ),
            Self::ModeChanged => (
                Normal,
                Node,
                "Configure",
                "The Node or the configuration changed the mode of a capability",
                "Nothing",
            ),
            Self::ConfigurationRejected => (
                Warning,
                Node,
                "Configure",
                "The configuration file is invalid; the last valid one stays in use",
                "Correct the ConfigMap: the note has line and key",
            ),
            Self::ConfigurationAccepted => (
                Normal,
                Node,
                "Configure",
                "The configuration file is valid again and in use",
                "Nothing",
            ),
            Self::HostUnknown => (
                Warning,
                Node,
                "Configure",
                "The host's network namespace is unknown; usher only observes, whatever the mode",
                "Give the agent's pod `hostPID`, `hostNetwork` and the capability `SYS_PTRACE`, as the chart does",
            ),
            Self::HoldUnsupported => (
                Warning,
                Node,
                "Hold",
                "The node's kernel cannot hold connections; pods start unheld",
                "Load the kernel modules that the note names, or set `usher.dev/hold=off`",
            ),
            Self::StartUnsupported => (
                Warning,
                Node,
                "HoldStart",
                "The node cannot hold starts; usher holds connections instead",
                "Mount the runtime's directory (`--bundle-dir`), or what the note says",
            ),
            Self::CniPluginInstallFailed => (
                Warning,
                Node,
                "Install",
                "The CNI plugin cannot be installed; usher holds only pods that it discovers in time",
                "Correct what the note names: directory, permissions, or the network configuration",
            ),
            Self::CniPluginInstalled => (
                Normal,
                Node,
                "Install",
                "The CNI plugin is installed after an earlier failure",
                "Nothing",
            ),
            Self::StartHolderFailed => (
                Warning,
                Node,
                "HoldStart",
                "The process that holds starts exits repeatedly; starts are not held meanwhile",
                "See the agent's log on this node",
            ),
            Self::KubeletUnreachable => (
                Warning,
                Node,
                "Watch",
                "The kubelet has not listed its pods for a minute; usher does not manage new pods",
                "Check the permission to get `nodes/pods`, the kubelet's address and certificate (`USHER_KUBELET*`)",
            ),
            Self::NamespaceUnread => (
                Warning,
                Node,
                "Watch",
                "A Namespace cannot be read. Where it was read before, its last annotations apply; otherwise its pods wait",
                "Check the permission to get `namespaces`, and whether the API server responds: the note has the error",
            ),
            Self::PodsSkipped => (
                Warning,
                Node,
                "Watch",
                "Pods of this node are invalid or too large for usher, which does not manage them",
                "Reduce the arguments, annotations or variables of the pods that the note names, or delete them",
            ),
            Self::EventsDropped => (
                Warning,
                Node,
                "Report",
                "The queue of Events overflowed while the API server was unavailable or slow",
                "Read the decisions in the agent's log",
            ),
            Self::StartupTaintRemoved => (
                Normal,
                Node,
                "Taint",
                "usher is ready and removed its startup taint from the Node",
                "Nothing",
            ),
            Self::StartupTaintNotRemoved => (
                Warning,
                Node,
                "Taint",
                "usher is ready and cannot remove its startup taint from the Node: no pod is scheduled there",
                "Grant the ServiceAccount the permission to patch its Node, or remove the taint with `kubectl taint`",
            ),
        };
        Meaning {
            event_type,
            target,
            action,
            when,
            remedy,
        }
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
            let Meaning {
                action,
                when,
                remedy,
                event_type,
                ..
            } = reason.meaning();
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
