//! The modes of the node, and the advice that changes them.

use usher_core::settings::mode::{Limit, Mode};

use super::Case;
use crate::check::agent::limit_fix;

impl Case<'_> {
    pub(in crate::explain) fn enforces_quit(&self) -> bool {
        let modes = self.seen.modes.as_ref();
        modes.is_some_and(|modes| modes.quit == Mode::Enforce)
    }

    pub(in crate::explain) fn enforces_hold(&self) -> bool {
        let modes = self.seen.modes.as_ref();
        modes.is_some_and(|modes| modes.hold == Mode::Enforce)
    }

    /// The advice to enable usher to do something on this node, as a clause, and its command. Where the modes are limited,
    /// the advice is to end the limit: the annotation would change nothing.
    pub(in crate::explain) fn enable(&self, action: &str, key: &str) -> (String, String) {
        let remedy = match self.limit() {
            Some(limit) => {
                let limit = <&str>::from(limit);
                format!("correct why usher only observes on this node: {limit}")
            }
            None => format!("enable usher to {action}"),
        };
        (remedy, self.enforce(key))
    }

    /// The command that switches a capability on for the node, or what ends the limit of its modes.
    pub(in crate::explain) fn enforce(&self, key: &str) -> String {
        match self.limit() {
            Some(limit) => limit_fix(limit).to_owned(),
            None => format!(
                "kubectl annotate node {} {key}=enforce --overwrite",
                self.node()
            ),
        }
    }

    /// Why an annotation of the Node would not switch a capability on.
    fn limit(&self) -> Option<Limit> {
        let modes = self.seen.modes.as_ref()?;
        let unread = (!modes.known).then_some(Limit::UnknownNode);
        modes.limit.or(unread)
    }
}

/// The mode of a capability and its source, for people.
pub(in crate::explain) fn text(capability: &str, mode: Mode, source: Option<&str>) -> String {
    format!("{capability}: {mode} ({})", source.unwrap_or_default())
}
