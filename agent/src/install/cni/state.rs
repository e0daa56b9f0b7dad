//! The state of the installation, and its reports.

use std::{mem, path::Path, sync::atomic::Ordering};

use usher_core::{admin::Plugin, kube_event::NodeCondition};

use super::Installer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// This file has the entry.
    Installed { name: String },
    /// The agent is about to insert the entry into this file.
    Absent { name: String },
    /// No file can have the entry yet.
    Waiting { why: String },
    /// The installation failed, and is retried. An earlier plugin and its entry may be in place.
    Failed { error: String, is_in_place: bool },
    /// The removal of the entry failed, and is retried.
    StillThere { error: String },
    /// The Node's mode does not need the plugin, and no file has the entry.
    Unwanted,
}

impl State {
    /// Whether the state stays until the next change.
    pub(super) const fn is_settled(&self) -> bool {
        match self {
            Self::Installed { .. }
            | Self::Failed { .. }
            | Self::StillThere { .. }
            | Self::Unwanted => true,
            Self::Absent { .. } | Self::Waiting { .. } => false,
        }
    }

    /// Whether a file has the entry.
    pub(super) const fn is_installed(&self) -> bool {
        match self {
            Self::Installed { .. } | Self::StillThere { .. } => true,
            Self::Failed { is_in_place, .. } => *is_in_place,
            Self::Absent { .. } | Self::Waiting { .. } | Self::Unwanted => false,
        }
    }

    /// For `usher status`.
    pub(super) fn plugin(&self) -> Plugin {
        let detail = match self {
            Self::Installed { name } => Some(name.clone()),
            Self::Absent { name } => Some(format!("soon in {name}")),
            Self::Waiting { why } => Some(why.clone()),
            Self::Failed { error, .. } | Self::StillThere { error } => Some(error.clone()),
            Self::Unwanted => None,
        };
        Plugin {
            managed: true,
            installed: self.is_installed(),
            detail,
            failed: matches!(self, Self::Failed { .. } | Self::StillThere { .. }),
        }
    }

    /// Why the agent is not ready; None if this state does not prevent it.
    pub(super) fn readiness(&self) -> Option<String> {
        match self {
            Self::Installed { .. } | Self::Unwanted => None,
            Self::Failed {
                error,
                is_in_place: true,
            } => Some(format!("the CNI plugin is not updated: {error}")),
            Self::Failed { error, .. } | Self::Waiting { why: error } => {
                Some(format!("the CNI plugin is not installed: {error}"))
            }
            Self::StillThere { error } => Some(format!(
                "the entry of the CNI plugin is not removed: {error}"
            )),
            Self::Absent { name } => Some(format!("the CNI plugin is not installed yet in {name}")),
        }
    }

    pub(super) fn log(&self, conf_dir: &Path) {
        let dir = conf_dir.display();
        match self {
            Self::Installed { name } => {
                tracing::info!(%dir, file = name, "installed the CNI plugin");
            }
            Self::Absent { name } => {
                tracing::info!(%dir, file = name, "found no entry of the CNI plugin");
            }
            Self::Waiting { why } => {
                tracing::info!(%dir, why, "found no network configuration for the CNI plugin; waiting for one");
            }
            Self::Failed {
                error,
                is_in_place: true,
            } => {
                tracing::warn!(
                    error,
                    "could not update the CNI plugin, and the earlier one stays; retrying"
                );
            }
            Self::Failed { error, .. } => {
                tracing::warn!(error, "could not install the CNI plugin; retrying");
            }
            Self::StillThere { error } => {
                tracing::warn!(
                    error,
                    "could not remove the entry of the CNI plugin; retrying"
                );
            }
            Self::Unwanted => {
                tracing::info!(%dir, "the CNI plugin has no entry, since the Node's mode does not need it");
            }
        }
    }
}

impl Installer {
    /// Changes the state, and reports the change.
    pub(super) fn enter(&mut self, state: State) {
        if !matches!(state, State::Waiting { .. } | State::Failed { .. }) {
            self.waiting_since = None;
        }
        let is_retry = matches!(state, State::Absent { .. })
            && matches!(self.state, Some(State::Failed { .. }));
        if self.state.as_ref() == Some(&state) || is_retry {
            return;
        }
        let is_installed = state.is_installed();
        self.was_installed |= matches!(state, State::Installed { .. });
        self.reporter
            .metrics
            .cni_installed
            .set(i64::from(is_installed));
        state.log(&self.settings.conf_dir);
        self.report(&state);
        self.reporter.health.set_plugin(state.plugin());
        self.state = Some(state);
    }

    fn report(&mut self, state: &State) {
        let condition = match state {
            State::Failed { error, is_in_place } => {
                self.failure_reported = true;
                Some(match is_in_place {
                    true => NodeCondition::CniPluginUpdateFailed(error.clone()),
                    false => NodeCondition::CniPluginInstallFailed(error.clone()),
                })
            }
            // Other states may have followed the failure.
            State::Installed { name } => mem::take(&mut self.failure_reported)
                .then(|| NodeCondition::CniPluginInstalled(name.clone())),
            _ => None,
        };
        if let Some(condition) = condition {
            self.reporter.events.send_node(&condition);
        }
        self.readiness.set_plugin(state.readiness());
        if state.is_settled() {
            self.readiness.plugin_settled.store(true, Ordering::Release);
            self.readiness.changed.notify_one();
        }
    }
}
