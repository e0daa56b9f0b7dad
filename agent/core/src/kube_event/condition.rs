//! What concerns the whole node, in words.

use super::{LONGEST_NOTE, Notice, Reason, Regarding, text::bounded};
use crate::settings::{annotation, mode::Modes};

/// Bytes of somebody else's text in a note, so that there is room for what to do about it.
const QUOTED: usize = 640;

/// Something about the node that is worth an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCondition {
    /// The Node's annotations changed the modes.
    ModeChanged {
        /// From.
        before: Modes,
        /// To.
        now: Modes,
    },
    /// An annotation of the Node is not one; what is wrong, and what counts instead.
    BadAnnotation(String),
    /// The configuration file is broken; where and how.
    ConfigurationRejected(String),
    /// It is good again.
    ConfigurationTaken,
    /// The kernel lacks this for holding connections.
    HoldUnsupported(String),
    /// The node lacks this for holding starts.
    StartUnsupported(String),
    /// The CNI plugin cannot be installed, for this reason.
    PluginNotInstalled(String),
    /// It was, after all, in this file.
    PluginInstalled(String),
    /// The process that holds starts ends again and again.
    HolderFails,
    /// The kubelet does not give its pods, for this reason.
    KubeletUnreachable(String),
    /// So many Events were lost.
    EventsDropped(u64),
    /// A taint with this key was removed.
    StartupTaintRemoved(String),
    /// It could not be.
    StartupTaintStays {
        /// Its key.
        key: String,
        /// Why.
        error: String,
    },
}

impl NodeCondition {
    /// The Event about a Node.
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
            Self::BadAnnotation(_) => Reason::BadAnnotation,
            Self::ConfigurationRejected(_) => Reason::ConfigurationRejected,
            Self::ConfigurationTaken => Reason::ConfigurationTaken,
            Self::HoldUnsupported(_) => Reason::HoldUnsupported,
            Self::StartUnsupported(_) => Reason::StartUnsupported,
            Self::PluginNotInstalled(_) => Reason::PluginNotInstalled,
            Self::PluginInstalled(_) => Reason::PluginInstalled,
            Self::HolderFails => Reason::HolderFails,
            Self::KubeletUnreachable(_) => Reason::KubeletUnreachable,
            Self::EventsDropped(_) => Reason::EventsDropped,
            Self::StartupTaintRemoved(_) => Reason::StartupTaintRemoved,
            Self::StartupTaintStays { .. } => Reason::StartupTaintStays,
        }
    }

    fn note(&self, node: &str) -> String {
        let quoted = |text: &str| bounded(text, QUOTED);
        match self {
            Self::ModeChanged { before, now } => format!(
                "showing sidecars out: {} (was {}); holding connections and starts: {} (was {})",
                now.quit, before.quit, now.hold, before.hold
            ),
            Self::BadAnnotation(error) => format!(
                "{}. Use observe, enforce or off: kubectl annotate node {node} {}=observe --overwrite",
                quoted(error),
                annotation::MODE
            ),
            Self::ConfigurationRejected(error) => format!(
                "the configuration is broken and what counted before goes on to count; correct it: {}",
                quoted(error)
            ),
            Self::ConfigurationTaken => "the configuration is good again and counts".to_owned(),
            Self::HoldUnsupported(lacks) => format!(
                "the kernel cannot hold connections, and pods start unheld. It lacks {}; load the module, or switch holding off: \
                 kubectl annotate node {node} {}=off --overwrite",
                quoted(lacks),
                annotation::HOLD
            ),
            Self::StartUnsupported(lacks) => format!(
                "the starts of apps cannot be held; where {}: start asks for it connections wait instead. What is missing: {}",
                annotation::HOLD,
                quoted(lacks)
            ),
            Self::PluginNotInstalled(error) => format!(
                "could not install the CNI plugin, trying again; pods may start unheld until then: {}",
                quoted(error)
            ),
            Self::PluginInstalled(file) => {
                format!("the CNI plugin is installed, in {}", quoted(file))
            }
            Self::HolderFails => {
                "the process that holds starts ends again and again; apps start unheld, their connections wait. \
                 See the agent's log on this node"
                    .to_owned()
            }
            Self::KubeletUnreachable(error) => format!(
                "the kubelet does not give its pods: those that are new are not dealt with. Trying again; look at \
                 rights, address and certificate: {}",
                quoted(error)
            ),
            Self::EventsDropped(count) => format!(
                "{count} Events were lost while the API server was away or slow; the agent's log has what they said"
            ),
            Self::StartupTaintRemoved(key) => {
                format!("usher is ready; removed the taint {}", quoted(key))
            }
            Self::StartupTaintStays { key, error } => format!(
                "usher is ready, but could not remove the taint {key}, so that no pod is scheduled here. Trying again; \
                 by hand: kubectl taint node {node} {key}- ({})",
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
    fn each_says_what_to_do_and_fits() {
        let long = "x\n".repeat(2000);
        let all = [
            NodeCondition::ModeChanged {
                before: Modes::default(),
                now: Modes {
                    quit: Mode::Enforce,
                    hold: Mode::Off,
                },
            },
            NodeCondition::BadAnnotation(long.clone()),
            NodeCondition::ConfigurationRejected(long.clone()),
            NodeCondition::ConfigurationTaken,
            NodeCondition::HoldUnsupported(long.clone()),
            NodeCondition::StartUnsupported(long.clone()),
            NodeCondition::PluginNotInstalled(long.clone()),
            NodeCondition::PluginInstalled(long.clone()),
            NodeCondition::HolderFails,
            NodeCondition::KubeletUnreachable(long.clone()),
            NodeCondition::EventsDropped(u64::MAX),
            NodeCondition::StartupTaintRemoved(long.clone()),
            NodeCondition::StartupTaintStays {
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
    fn commands_survive_long_errors() {
        let lacks = NodeCondition::HoldUnsupported("y".repeat(5000));
        let note = lacks.notice("node-1", 1).note;
        let command = "kubectl annotate node node-1 usher.dev/hold=off --overwrite";
        assert!(note.ends_with(command), "{note}");
    }
}
