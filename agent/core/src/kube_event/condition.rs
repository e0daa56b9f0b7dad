//! Conditions of the whole node, with the texts of their Events.

use super::{LONGEST_NOTE, Notice, Reason, Regarding, text::bounded};
use crate::settings::{
    annotation,
    mode::{Modes, Source},
};

/// Limit of external text in a note, which leaves room for the remedy.
const QUOTED: usize = 640;

/// A condition of the node that is reported as an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCondition {
    ModeChanged {
        before: Modes,
        now: Modes,
    },
    /// An annotation or label of the Node is invalid.
    InvalidAnnotation {
        place: Source,
        error: String,
        /// The modes in use.
        now: Modes,
    },
    /// The error, with its place in the file.
    ConfigurationRejected(String),
    ConfigurationAccepted,
    /// The host's network namespace is unknown.
    HostNetnsUnknown,
    HoldUnsupported(String),
    StartHoldUnsupported(String),
    CniPluginInstallFailed(String),
    /// An earlier plugin and its entry stay in place.
    CniPluginUpdateFailed(String),
    /// The file with the plugin's entry.
    CniPluginInstalled(String),
    HolderFailed,
    /// The error of the last request.
    KubeletUnreachable(String),
    /// Neither the cluster's CA nor a certificate of the node verifies the kubelet.
    KubeletUntrusted(String),
    NamespaceReadFailed {
        name: String,
        error: String,
        /// The values of an earlier request are in use.
        has_last_values: bool,
    },
    PodsSkipped {
        pods: usize,
        /// Why one of them is skipped.
        example: String,
    },
    EventsDropped(u64),
    /// The key of the taint.
    StartupTaintRemoved(String),
    StartupTaintNotRemoved {
        key: String,
        error: String,
    },
}

impl NodeCondition {
    pub fn notice(&self, node: &str, at_us: u64) -> Notice {
        Notice {
            regarding: Regarding::Node {
                name: node.to_owned(),
            },
            reason: self.reason(),
            container: None,
            note: bounded(&self.note(node), LONGEST_NOTE),
            at_us,
        }
    }

    fn reason(&self) -> Reason {
        match self {
            Self::ModeChanged { .. } => Reason::ModeChanged,
            Self::InvalidAnnotation { .. } => Reason::InvalidAnnotation,
            Self::ConfigurationRejected(_) => Reason::ConfigurationRejected,
            Self::ConfigurationAccepted => Reason::ConfigurationAccepted,
            Self::HostNetnsUnknown => Reason::HostNetnsUnknown,
            Self::HoldUnsupported(_) => Reason::HoldUnsupported,
            Self::StartHoldUnsupported(_) => Reason::StartHoldUnsupported,
            Self::CniPluginInstallFailed(_) | Self::CniPluginUpdateFailed(_) => {
                Reason::CniPluginInstallFailed
            }
            Self::CniPluginInstalled(_) => Reason::CniPluginInstalled,
            Self::HolderFailed => Reason::HolderFailed,
            Self::KubeletUnreachable(_) | Self::KubeletUntrusted(_) => Reason::KubeletUnreachable,
            Self::NamespaceReadFailed { .. } => Reason::NamespaceReadFailed,
            Self::PodsSkipped { .. } => Reason::PodsSkipped,
            Self::EventsDropped(_) => Reason::EventsDropped,
            Self::StartupTaintRemoved(_) => Reason::StartupTaintRemoved,
            Self::StartupTaintNotRemoved { .. } => Reason::StartupTaintNotRemoved,
        }
    }

    fn note(&self, node: &str) -> String {
        let quoted = |text: &str| bounded(text, QUOTED);
        match self {
            Self::ModeChanged { before, now } => format!(
                "quit: {} (was {}); hold: {} (was {}); linger: {} (was {})",
                now.quit, before.quit, now.hold, before.hold, now.linger, before.linger
            ),
            Self::InvalidAnnotation { place, error, now } => {
                // Without the value the modes stay as they are.
                let remove = match place {
                    Source::Annotation(key) => format!("kubectl annotate node {node} {key}-"),
                    Source::Label(key) => format!("kubectl label node {node} {key}-"),
                    Source::Default | Source::Configuration(_) => "correct the configuration".to_owned(),
                };
                format!(
                    "{}. In use: quit {}, hold {}, linger {}. Use observe, enforce or off, or remove it: {remove}",
                    quoted(error),
                    now.quit,
                    now.hold,
                    now.linger,
                )
            }
            Self::ConfigurationRejected(error) => format!(
                "the configuration is invalid, the last valid one stays in use; correct it: {}",
                quoted(error)
            ),
            Self::ConfigurationAccepted => "the configuration is valid again and in use".to_owned(),
            Self::HostNetnsUnknown => "usher only observes, because the host's network namespace is unknown: it could act in the host's \
                                  own. Give the agent's pod hostPID: true, hostNetwork: true and the capability SYS_PTRACE, as \
                                  the chart does"
                .to_owned(),
            Self::HoldUnsupported(lacks) => format!(
                "the kernel cannot hold connections, so pods start unheld. Missing: {}. Load the module, or switch hold off: \
                 kubectl annotate node {node} {}=off --overwrite",
                quoted(lacks),
                annotation::HOLD
            ),
            Self::StartHoldUnsupported(lacks) => format!(
                "the node cannot hold starts; for pods with {}: start, usher holds connections instead. Missing: {}",
                annotation::HOLD,
                quoted(lacks)
            ),
            Self::CniPluginInstallFailed(error) => format!(
                "the CNI plugin cannot be installed, and pods may start unheld; usher retries: {}",
                quoted(error)
            ),
            Self::CniPluginUpdateFailed(error) => format!(
                "the CNI plugin cannot be updated, and the earlier one stays in use; usher retries: {}",
                quoted(error)
            ),
            Self::CniPluginInstalled(file) => {
                format!("the CNI plugin is installed in {}", quoted(file))
            }
            Self::HolderFailed => {
                "the process that holds starts and stop signals exits repeatedly, which releases both; neither is held \
                 meanwhile, connections are. See the agent's log on this node"
                    .to_owned()
            }
            Self::KubeletUnreachable(error) => format!(
                "the kubelet does not list its pods, so usher does not manage new pods; usher retries. Check \
                 permissions, address and certificate: {}",
                quoted(error)
            ),
            Self::KubeletUntrusted(error) => format!(
                "usher does not trust the kubelet's certificate, so it does not list the pods and is not ready. Set the chart's \
                 value kubelet.certificate to the file with this certificate on the nodes, or serverTLSBootstrap: true in the \
                 kubelet's configuration: {}",
                quoted(error)
            ),
            Self::NamespaceReadFailed {
                name,
                error,
                has_last_values,
            } => {
                let effect = if *has_last_values {
                    "its last known annotations apply"
                } else {
                    "its pods are neither held nor terminated until it can be read, because it may opt out"
                };
                format!(
                    "cannot read the Namespace {}: {effect}; usher retries. Check the permission: \
                     kubectl auth can-i get namespaces --as system:serviceaccount:usher:usher ({})",
                    quoted(name),
                    quoted(error)
                )
            }
            Self::PodsSkipped { pods, example } => format!(
                "usher does not manage {pods} pods of this node, which start and end as without usher. Reduce or delete them; \
                 the agent's log names them. One of them: {}",
                quoted(example)
            ),
            Self::EventsDropped(count) => format!(
                "{count} Events were dropped: the API server was unavailable or slow, or one namespace has very many; the agent's log has the decisions"
            ),
            Self::StartupTaintRemoved(key) => {
                format!("usher is ready; removed the taint {}", quoted(key))
            }
            Self::StartupTaintNotRemoved { key, error } => format!(
                "usher is ready but cannot remove the taint {key}, so no pod is scheduled here; usher retries. \
                 To remove it: kubectl taint node {node} {key}- ({})",
                quoted(error),
                key = quoted(key),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::mode::Mode;

    #[test]
    fn invalid_key_of_the_node_is_the_one_to_remove() {
        for (place, command) in [
            (
                Source::Annotation("usher.dev/hold"),
                "kubectl annotate node node-1 usher.dev/hold-",
            ),
            (
                Source::Label("usher.dev/mode"),
                "kubectl label node node-1 usher.dev/mode-",
            ),
        ] {
            let condition = NodeCondition::InvalidAnnotation {
                place,
                error: "invalid".to_owned(),
                now: Modes::default(),
            };
            let note = condition.notice("node-1", 1).note;
            assert!(note.ends_with(command), "{note}");
        }
    }

    #[test]
    fn every_note_fits_and_has_one_line() {
        let long = "x\n".repeat(2000);
        let all = [
            NodeCondition::ModeChanged {
                before: Modes::default(),
                now: Modes {
                    quit: Mode::Enforce,
                    hold: Mode::Off,
                    linger: Mode::Enforce,
                },
            },
            NodeCondition::InvalidAnnotation {
                place: Source::Annotation(annotation::MODE),
                error: long.clone(),
                now: Modes::default(),
            },
            NodeCondition::ConfigurationRejected(long.clone()),
            NodeCondition::ConfigurationAccepted,
            NodeCondition::HostNetnsUnknown,
            NodeCondition::HoldUnsupported(long.clone()),
            NodeCondition::StartHoldUnsupported(long.clone()),
            NodeCondition::CniPluginInstallFailed(long.clone()),
            NodeCondition::CniPluginUpdateFailed(long.clone()),
            NodeCondition::CniPluginInstalled(long.clone()),
            NodeCondition::HolderFailed,
            NodeCondition::KubeletUnreachable(long.clone()),
            NodeCondition::KubeletUntrusted(long.clone()),
            NodeCondition::NamespaceReadFailed {
                name: "n".repeat(63),
                error: long.clone(),
                has_last_values: false,
            },
            NodeCondition::PodsSkipped {
                pods: usize::MAX,
                example: long.clone(),
            },
            NodeCondition::EventsDropped(u64::MAX),
            NodeCondition::StartupTaintRemoved(long.clone()),
            NodeCondition::StartupTaintNotRemoved {
                key: "usher.dev/not-ready".to_owned(),
                error: long,
            },
        ];
        for condition in all {
            let notice = condition.notice("node-1", 1);
            assert!(notice.note.len() <= LONGEST_NOTE, "{notice:?}");
            assert!(!notice.note.contains('\n'));
            assert_eq!(notice.regarding.namespace(), "default");
            assert_eq!(notice.regarding.uid(), "node-1");
        }
    }

    #[test]
    fn a_long_error_does_not_cut_the_command_off() {
        let lacks = NodeCondition::HoldUnsupported("y".repeat(5000));
        let note = lacks.notice("node-1", 1).note;
        let command = "kubectl annotate node node-1 usher.dev/hold=off --overwrite";
        assert!(note.ends_with(command), "{note}");
    }
}
