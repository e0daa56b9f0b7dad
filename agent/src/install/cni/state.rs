//! How the installation stands, for people.

use std::path::Path;

use usher_core::admin::Plugin;

/// What is known and told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// All is right, and the entry is in this file.
    Installed { name: String },
    /// The entry will be there soon.
    Absent { name: String },
    /// There is no file yet that it could be in.
    Waiting { why: String },
    /// It will be tried again.
    Failed { error: String },
    /// Nobody wants it, and it is not there.
    Unwanted,
}

impl State {
    /// Whether nothing more is to be expected soon: it is as it is wanted, or cannot be.
    pub(super) const fn is_settled(&self) -> bool {
        match self {
            Self::Installed { .. } | Self::Failed { .. } | Self::Unwanted => true,
            Self::Absent { .. } | Self::Waiting { .. } => false,
        }
    }

    /// For people who ask.
    pub(super) fn plugin(&self) -> Plugin {
        let said = match self {
            Self::Installed { name } => Some(name.clone()),
            Self::Absent { name } => Some(format!("soon in {name}")),
            Self::Waiting { why } => Some(why.clone()),
            Self::Failed { error } => Some(error.clone()),
            Self::Unwanted => None,
        };
        Plugin {
            managed: true,
            installed: matches!(self, Self::Installed { .. }),
            said,
            failed: matches!(self, Self::Failed { .. }),
        }
    }

    /// One line of the log.
    pub(super) fn tell(&self, conf_dir: &Path) {
        let dir = conf_dir.display();
        match self {
            Self::Installed { name } => {
                tracing::info!(%dir, file = name, "the CNI plugin is installed");
            }
            Self::Absent { name } => {
                tracing::info!(%dir, file = name, "the CNI plugin's entry is not there");
            }
            Self::Waiting { why } => {
                tracing::info!(%dir, why, "the CNI plugin waits for a network configuration");
            }
            Self::Failed { error } => {
                tracing::warn!(error, "could not install the CNI plugin; trying again");
            }
            Self::Unwanted => {
                tracing::info!(%dir, "the CNI plugin has no entry, as the Node wants it");
            }
        }
    }
}
