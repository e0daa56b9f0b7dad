//! The modes that the Node's annotations set, and their reports.

use std::mem;

use usher_client::{error_chain::chain, run_dir::Annotations};
use usher_core::{
    Event,
    kube_event::NodeCondition,
    metric::value::Capability,
    settings::mode::{Mode, Modes},
};

use super::NodeLoop;
use crate::telemetry::reporter::Reporter;

/// What the event loop knows of its Node.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) annotations: Annotations,
    /// The annotations come from the API server, or from the run directory.
    pub(super) is_known: bool,
    /// The kernel feature that holding connections needs and the kernel lacks.
    pub(super) missing_feature: Option<String>,
    missing_reported: bool,
    reported_modes: Option<Modes>,
    /// The configuration is an operator's. Without a valid one the agent only observes.
    pub(super) config_trusted: bool,
    /// The host's network namespace is known. Without it the agent only observes: it could act in the host's own.
    host_known: bool,
}

impl NodeState {
    pub(super) fn new(config_trusted: bool, host_known: bool) -> Self {
        Self {
            config_trusted,
            host_known,
            ..Self::default()
        }
    }
}

impl NodeLoop {
    /// Applies the modes that the Node's annotations set.
    pub(super) fn apply_modes(&mut self) {
        let (mut modes, bad) = Modes::from_annotations(&self.node.annotations);
        for bad in bad {
            let error = chain(&bad);
            tracing::warn!(error, "ignored an invalid annotation of the Node");
            let condition = NodeCondition::InvalidAnnotation(error);
            self.reporter.events.send_node(&condition);
        }
        for mode in [&mut modes.quit, &mut modes.hold] {
            let may_enforce = self.node.config_trusted && self.node.host_known;
            if !may_enforce && *mode == Mode::Enforce {
                *mode = Mode::Observe;
            }
        }
        tracing::info!(quit = %modes.quit, hold = %modes.hold, "took the Node's modes");
        let Reporter {
            metrics, health, ..
        } = &self.reporter;
        metrics.modes.set(&Capability::Quit, &modes.quit);
        metrics.modes.set(&Capability::Hold, &modes.hold);
        health.set_modes(modes, &self.node.annotations);
        // The plugin is installed for enforce only: in the other modes nothing of the node is changed, and a pod is
        // reviewed when its first process appears.
        if self.node.is_known {
            let wanted = self.node.missing_feature.is_none() && modes.hold == Mode::Enforce;
            self.requests.plugin.send_replace(wanted);
            self.report_modes(modes);
        }
        self.step(Event::Modes(modes));
    }

    fn report_modes(&mut self, now: Modes) {
        let node = &mut self.node;
        let events = &self.reporter.events;
        if let Some(before) = node
            .reported_modes
            .replace(now)
            .filter(|before| *before != now)
        {
            events.send_node(&NodeCondition::ModeChanged { before, now });
        }
        if let Some(missing) = &node.missing_feature
            && now.hold != Mode::Off
            && !mem::replace(&mut node.missing_reported, true)
        {
            events.send_node(&NodeCondition::HoldUnsupported(missing.clone()));
        }
    }
}
