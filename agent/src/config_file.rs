//! The configuration file: read at the start and whenever its directory
//! changes.
//!
//! A file that is broken changes nothing. At the start the last good one, kept
//! in the run directory, counts instead; without one usher observes only,
//! since it does not know which namespaces it is to leave alone.

use std::{fs, io, path::PathBuf, sync::Arc};

use usher_core::config::Config;
use usher_sys::directory::Directory;

use crate::{metrics::Metrics, run_dir, telemetry::chain};

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
    /// What was read last, good or bad.
    last: Option<String>,
}

impl ConfigFile {
    pub(crate) const fn new(path: PathBuf, run_dir: PathBuf, metrics: Arc<Metrics>) -> Self {
        Self {
            path,
            run_dir,
            metrics,
            last: None,
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
        let kept = kept.and_then(|text| Config::parse("last good configuration", &text).ok());
        if let Some(config) = kept {
            tracing::warn!("the last good configuration counts instead");
            return Loaded {
                config: Arc::new(config),
                trusted: true,
            };
        }
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

    fn took(&self, config: &Config) {
        self.metrics.config_valid.set(1);
        self.metrics.config_reload("ok");
        tracing::info!(
            path = %self.path.display(),
            recipes = config.recipes.len(),
            excluded_namespaces = config.excluded_namespaces.len(),
            "took the configuration"
        );
        let text = self.last.as_deref().unwrap_or_default();
        if let Err(error) = run_dir::save_text(&self.run_dir, run_dir::CONFIG, text) {
            tracing::warn!(
                error = %chain(&error),
                "could not keep the configuration; a restart with a broken one would only observe"
            );
        }
    }

    fn rejected(&self, error: &str) {
        self.metrics.config_valid.set(0);
        self.metrics.config_reload("rejected");
        tracing::warn!(error, "kept the old configuration");
    }
}
