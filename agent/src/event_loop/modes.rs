//! The modes that the Node and the configuration set, and their reports.

use std::mem;

use usher_client::error_chain::chain;
use usher_core::{
    kube_event::NodeCondition,
    metric::value::Capability,
    settings::mode::{DefaultModes, Limit, Mode, Modes, NodeModes, NodeValues},
};

use super::NodeLoop;
use crate::telemetry::reporter::Reporter;

/// The Node's values, and other inputs of the modes.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    /// From the API server or the run directory. None if neither has them: then the agent only observes, because the
    /// Node may override the configuration.
    pub(super) values: Option<NodeValues>,
    /// The modes of the configuration.
    pub(super) default_modes: DefaultModes,
    /// The kernel feature that is missing for holding connections.
    pub(super) missing_feature: Option<String>,
    missing_reported: bool,
    reported_modes: Option<Modes>,
    /// Whether the configuration is valid. Otherwise the agent only observes.
    pub(super) config_trusted: bool,
    /// Whether the host's network namespace is known. Otherwise the agent only observes: it could act in it.
    host_known: bool,
    unknown_host_reported: bool,
}

impl NodeState {
    pub(super) fn new(default_modes: DefaultModes, config_trusted: bool, host_known: bool) -> Self {
        Self {
            default_modes,
            config_trusted,
            host_known,
            ..Self::default()
        }
    }

    pub(super) fn modes(&self) -> NodeModes {
        let unread = NodeValues::default();
        let values = self.values.as_ref();
        let mut modes = NodeModes::resolve(self.default_modes, values.unwrap_or(&unread));
        let limits = [
            (!self.config_trusted, Limit::InvalidConfiguration),
            (!self.host_known, Limit::UnknownHost),
            (values.is_none(), Limit::UnknownNode),
        ];
        for (_, limit) in limits.into_iter().filter(|(applies, _)| *applies) {
            modes.limit(limit);
        }
        modes
    }
}

impl NodeLoop {
    /// Reports the modes that the Node and the configuration set, and returns them for the engine.
    pub(super) fn report_modes(&mut self) -> Modes {
        let resolved = self.node.modes();
        let modes = resolved.modes();
        for invalid in &resolved.invalid {
            let error = chain(invalid);
            tracing::warn!(error, "ignored an invalid annotation or label of the Node");
            let condition = NodeCondition::InvalidAnnotation {
                place: invalid.place,
                error,
                now: modes,
            };
            self.reporter.events.send_node(&condition);
        }
        tracing::info!(
            quit = %modes.quit,
            quit_source = resolved.quit.origin(),
            hold = %modes.hold,
            hold_source = resolved.hold.origin(),
            linger = %modes.linger,
            linger_source = resolved.linger.origin(),
            "applied the modes"
        );
        let Reporter {
            metrics, health, ..
        } = &self.reporter;
        metrics.modes.set(&Capability::Quit, &modes.quit);
        metrics.modes.set(&Capability::Hold, &modes.hold);
        metrics.modes.set(&Capability::Linger, &modes.linger);
        health.set_modes(&resolved);
        self.report_support(modes);
        modes
    }

    /// Requests the CNI plugin where it is needed, and reports what these modes lack.
    pub(super) fn report_support(&mut self, modes: Modes) {
        // Only enforce needs the plugin. The other modes change nothing on the node, and the agent evaluates a pod at
        // its first process.
        if self.node.values.is_some() {
            let wanted = self.node.missing_feature.is_none() && modes.hold == Mode::Enforce;
            self.requests.plugin.send_replace(wanted);
            self.send_conditions(modes);
        }
    }

    fn send_conditions(&mut self, now: Modes) {
        let node = &mut self.node;
        let events = &self.reporter.events;
        if let Some(before) = node
            .reported_modes
            .replace(now)
            .filter(|before| *before != now)
        {
            events.send_node(&NodeCondition::ModeChanged { before, now });
        }
        if !node.host_known && !mem::replace(&mut node.unknown_host_reported, true) {
            events.send_node(&NodeCondition::HostNetnsUnknown);
        }
        if let Some(missing) = &node.missing_feature
            && now.hold != Mode::Off
            && !mem::replace(&mut node.missing_reported, true)
        {
            events.send_node(&NodeCondition::HoldUnsupported(missing.clone()));
        }
    }
}
