//! The configuration file: read at the start and whenever its directory changes.
//!
//! An invalid file changes nothing. At the start, the agent falls back to the last valid file in the run directory.
//! Without one it only observes, because the excluded namespaces are unknown. A removed file counts as invalid: the
//! deletion of a ConfigMap must not include the namespaces that it excluded.

mod watch;

use std::{fs, io, path::PathBuf, sync::Arc};

use usher_client::{error_chain::chain, run_dir};
use usher_core::{
    kube_event::NodeCondition,
    metric::value::{ConfigResult, RunFile},
    settings::config::Config,
};

use crate::telemetry::reporter::Reporter;

/// The name of the last valid configuration in error messages and `usher config`.
const LAST_GOOD: &str = "last good configuration";

/// The key of the ConfigMap.
const FILE: &str = "config.yaml";

fn has_settings(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| !line.is_empty() && !line.starts_with('#') && line != "{}")
}

/// The result of reading the file at the start.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) config: Arc<Config>,
    /// False if no valid configuration was found: then the agent uses the defaults and only observes.
    pub(crate) trusted: bool,
}

#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    run_dir: PathBuf,
    reporter: Reporter,
    is_rejected: bool,
    /// The last text, valid or not.
    last: Option<String>,
    /// The last valid text, if saving it in the run directory failed.
    unsaved: Option<String>,
    /// Whether the last valid text has settings.
    has_settings: bool,
    /// The error of the last read, if it failed.
    unread: Option<String>,
    /// Whether to read the file again without an event: the cause of the error may go without one.
    is_retried: bool,
}

impl ConfigFile {
    pub(crate) const fn new(path: PathBuf, run_dir: PathBuf, reporter: Reporter) -> Self {
        Self {
            path,
            run_dir,
            reporter,
            is_rejected: false,
            last: None,
            unsaved: None,
            has_settings: false,
            unread: None,
            is_retried: false,
        }
    }

    /// Reads the file at the start. Without a file the defaults apply, even if an earlier agent saved a valid one: a
    /// deleted ConfigMap looks the same as a new installation without one.
    pub(crate) fn load(&mut self) -> Loaded {
        if let Some(config) = self.read().or_else(|| self.last_valid()) {
            return Loaded {
                config,
                trusted: true,
            };
        }
        self.reporter
            .health
            .set_settings(&Config::default(), LAST_GOOD, "");
        tracing::error!(
            "found no valid configuration; observing until there is one, whatever the Node's mode"
        );
        // It may exclude a namespace, so its deletion does not apply the defaults.
        self.has_settings = true;
        Loaded {
            config: Arc::default(),
            trusted: false,
        }
    }

    fn last_valid(&mut self) -> Option<Arc<Config>> {
        let text = run_dir::load_text(&self.run_dir, run_dir::CONFIG)
            .ok()
            .flatten()?;
        let config = Config::parse(LAST_GOOD, &text).ok()?;
        self.reporter.health.set_settings(&config, LAST_GOOD, &text);
        // Else the deletion of the invalid file would apply the defaults.
        self.has_settings = has_settings(&text);
        tracing::warn!("used the last good configuration instead");
        Some(Arc::new(config))
    }

    /// None if the file is unchanged or invalid.
    fn read(&mut self) -> Option<Arc<Config>> {
        self.save();
        self.is_retried = false;
        let name = self.path.display().to_string();
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(absent) if absent.kind() == io::ErrorKind::NotFound && self.has_settings => {
                self.could_not_read(format!(
                    "{name}: the file is gone. For the defaults, create the ConfigMap with an empty {FILE}"
                ));
                return None;
            }
            // Without a file the defaults apply.
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                self.is_retried = true;
                self.could_not_read(format!("{name}: {error}"));
                return None;
            }
        };
        self.unread = None;
        if self.last.as_ref() == Some(&text) {
            return None;
        }
        let parsed = Config::parse(&name, &text);
        self.last = Some(text);
        match parsed {
            Ok(config) => {
                self.accepted(&config);
                Some(Arc::new(config))
            }
            Err(bad) => {
                self.rejected(&bad.to_string());
                None
            }
        }
    }

    /// Reports an error once, not after each retry.
    fn could_not_read(&mut self, error: String) {
        // The next text is accepted even if it is the last one, which clears the error.
        self.last = None;
        if self.unread.as_ref() != Some(&error) {
            self.rejected(&error);
            self.unread = Some(error);
        }
    }

    fn accepted(&mut self, config: &Config) {
        let Reporter {
            metrics,
            health,
            events,
        } = &self.reporter;
        if std::mem::take(&mut self.is_rejected) {
            events.send_node(&NodeCondition::ConfigurationAccepted);
        }
        metrics.config_valid.set(1);
        metrics.config_reloads.inc(&ConfigResult::Ok);
        tracing::info!(
            path = %self.path.display(),
            recipes = config.recipes.len(),
            excluded_namespaces = config.excluded_namespaces.len(),
            "loaded the configuration"
        );
        let text = self.last.as_deref().unwrap_or_default();
        let name = self.path.display().to_string();
        health.set_settings(config, &name, text);
        health.set_configuration(&name, None);
        self.has_settings = has_settings(text);
        self.unsaved = Some(text.to_owned());
        self.save();
    }

    /// Saves the last valid text. Retried before each read, because the new file may be invalid.
    fn save(&mut self) {
        let Some(text) = self.unsaved.take() else {
            return;
        };
        if let Err(error) = run_dir::save_text(&self.run_dir, run_dir::CONFIG, &text) {
            self.unsaved = Some(text);
            self.reporter.metrics.run_dir_errors.inc(&RunFile::Config);
            tracing::warn!(
                error = %chain(&error),
                "could not save the configuration; a restart with an invalid one would only observe"
            );
        }
    }

    fn rejected(&mut self, error: &str) {
        let Reporter {
            metrics,
            health,
            events,
        } = &self.reporter;
        self.is_rejected = true;
        events.send_node(&NodeCondition::ConfigurationRejected(error.to_owned()));
        metrics.config_valid.set(0);
        let name = self.path.display().to_string();
        health.set_configuration(&name, Some(error));
        metrics.config_reloads.inc(&ConfigResult::Rejected);
        tracing::warn!(error, "kept the old configuration");
    }
}

#[cfg(test)]
mod tests;
