//! The configuration file: read at the start and whenever its directory
//! changes.
//!
//! A file that is broken changes nothing. At the start the last good one, kept
//! in the run directory, counts instead; without one usher observes only,
//! since it does not know which namespaces it is to leave alone.

use std::{fs, io, path::PathBuf, sync::Arc};

use usher_client::{error_chain::chain, run_dir};
use usher_core::{
    kube_event::NodeCondition,
    metric::value::{Reading, RunFile},
    settings::config::Config,
};
use usher_sys::files::directory::Directory;

use crate::{kubernetes::events::Teller, telemetry::metrics::Metrics};

/// What people are told where the file cannot be used and an older one counts.
const LAST_GOOD: &str = "last good configuration";

/// What counts, and whether it is what was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) config: Arc<Config>,
    /// False where there was no good configuration at all.
    pub(crate) trusted: bool,
}

/// The file.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    run_dir: PathBuf,
    metrics: Arc<Metrics>,
    teller: Teller,
    is_rejected: bool,
    /// What was read last, good or bad.
    last: Option<String>,
    /// The last good one, while it is not in the run directory.
    unkept: Option<String>,
}

impl ConfigFile {
    pub(crate) const fn new(
        path: PathBuf,
        run_dir: PathBuf,
        metrics: Arc<Metrics>,
        teller: Teller,
    ) -> Self {
        Self {
            path,
            run_dir,
            metrics,
            teller,
            is_rejected: false,
            last: None,
            unkept: None,
        }
    }

    /// Reads the file at the start.
    pub(crate) fn first(&mut self) -> Loaded {
        if let Some(config) = self.read() {
            return Loaded {
                config,
                trusted: true,
            };
        }
        let kept = run_dir::load_text(&self.run_dir, run_dir::CONFIG);
        let kept = kept.ok().flatten();
        let kept = kept.and_then(|text| {
            let config = Config::parse(LAST_GOOD, &text).ok()?;
            self.metrics.vitals.configured(&config, LAST_GOOD, &text);
            Some(config)
        });
        if let Some(config) = kept {
            tracing::warn!("the last good configuration counts instead");
            return Loaded {
                config: Arc::new(config),
                trusted: true,
            };
        }
        self.metrics
            .vitals
            .configured(&Config::default(), LAST_GOOD, "");
        tracing::error!("observing only, whatever the Node says, until the configuration is good");
        Loaded {
            config: Arc::default(),
            trusted: false,
        }
    }

    /// Waits for changes for ever, and hands each good configuration on.
    pub(crate) async fn watch(mut self, mut tell: impl AsyncFnMut(Arc<Config>)) {
        let parent = self.path.parent().map(ToOwned::to_owned);
        let dir = parent.unwrap_or_default();
        let mut directory = match Directory::open(&dir) {
            Ok(directory) => directory,
            Err(error) => {
                tracing::info!(error = %chain(&error), "no configuration to watch; the defaults count");
                return std::future::pending().await;
            }
        };
        loop {
            // Also the first time: it may have changed before it was watched.
            if let Some(config) = self.read() {
                tell(config).await;
            }
            if let Err(error) = directory.changed().await {
                tracing::error!(error = %chain(&error), "changes of the configuration are not seen any more");
                return std::future::pending().await;
            }
        }
    }

    /// Reads the file. None where it is as it was, or broken.
    fn read(&mut self) -> Option<Arc<Config>> {
        self.keep();
        let name = self.path.display().to_string();
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            // Without a file the defaults count.
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                self.rejected(&format!("{name}: {error}"));
                return None;
            }
        };
        if self.last.as_ref() == Some(&text) {
            return None;
        }
        let parsed = Config::parse(&name, &text);
        self.last = Some(text);
        match parsed {
            Ok(config) => {
                self.took(&config);
                Some(Arc::new(config))
            }
            Err(bad) => {
                self.rejected(&bad.to_string());
                None
            }
        }
    }

    fn took(&mut self, config: &Config) {
        if std::mem::take(&mut self.is_rejected) {
            self.teller.node(&NodeCondition::ConfigurationAccepted);
        }
        self.metrics.config_valid.set(1);
        self.metrics.config_reloads.inc(&Reading::Ok);
        tracing::info!(
            path = %self.path.display(),
            recipes = config.recipes.len(),
            excluded_namespaces = config.excluded_namespaces.len(),
            "took the configuration"
        );
        let text = self.last.as_deref().unwrap_or_default();
        let name = self.path.display().to_string();
        self.metrics.vitals.configured(config, &name, text);
        self.metrics.vitals.read(&name, None);
        self.unkept = Some(text.to_owned());
        self.keep();
    }

    /// Also when the file changes the next time: it may be broken then.
    fn keep(&mut self) {
        let Some(text) = self.unkept.take() else {
            return;
        };
        if let Err(error) = run_dir::save_text(&self.run_dir, run_dir::CONFIG, &text) {
            self.unkept = Some(text);
            self.metrics.run_dir_errors.inc(&RunFile::Config);
            tracing::warn!(
                error = %chain(&error),
                "could not keep the configuration; a restart with a broken one would only observe"
            );
        }
    }

    fn rejected(&mut self, error: &str) {
        self.is_rejected = true;
        self.teller
            .node(&NodeCondition::ConfigurationRejected(error.to_owned()));
        self.metrics.config_valid.set(0);
        let name = self.path.display().to_string();
        self.metrics.vitals.read(&name, Some(error));
        self.metrics.config_reloads.inc(&Reading::Rejected);
        tracing::warn!(error, "kept the old configuration");
    }
}
