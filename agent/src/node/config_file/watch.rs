//! The watch on the configuration file. The agent polls the file only while its directory cannot be watched, for example
//! because no inotify instance is free, or after a failed read.

use std::{io, path::Path, sync::Arc, time::Duration};

use usher_client::error_chain::chain;
use usher_core::settings::config::Config;
use usher_sys::files::directory::{self, Directory};

use super::ConfigFile;

/// The polling interval if the directory cannot be watched, or the file cannot be read.
const POLL: Duration = Duration::from_secs(30);

impl ConfigFile {
    /// Watches the file until the agent ends, and calls `apply` with each valid configuration.
    pub(crate) async fn watch(self, apply: impl AsyncFnMut(Arc<Config>)) {
        self.watch_with(Directory::open, POLL, apply).await;
    }

    async fn watch_with(
        mut self,
        mut open: impl FnMut(&Path) -> Result<Directory, directory::Error>,
        poll: Duration,
        mut apply: impl AsyncFnMut(Arc<Config>),
    ) {
        let parent = self.path.parent().map(ToOwned::to_owned);
        let dir = parent.unwrap_or_default();
        let mut is_polling = false;
        loop {
            let error = match open(&dir) {
                Ok(mut directory) => {
                    if std::mem::take(&mut is_polling) {
                        tracing::info!("watching the configuration again");
                    }
                    loop {
                        // The first pass also reads: the file may have changed before the watch started.
                        if let Some(config) = self.read() {
                            apply(config).await;
                        }
                        if let Err(error) = self.changed(&mut directory, poll).await {
                            break error;
                        }
                    }
                }
                Err(error) if is_absent(&error) && !self.has_settings => {
                    tracing::info!(error = %chain(&error), "found no configuration to watch; the defaults apply");
                    return std::future::pending().await;
                }
                Err(error) => error,
            };
            if !std::mem::replace(&mut is_polling, true) {
                tracing::warn!(
                    error = %chain(&error),
                    "cannot watch the configuration; reading it every {}",
                    humantime::format_duration(poll)
                );
            }
            tokio::time::sleep(poll).await;
            if let Some(config) = self.read() {
                apply(config).await;
            }
        }
    }

    /// Waits for a change of the directory, after a failed read at most for `poll`.
    async fn changed(
        &self,
        directory: &mut Directory,
        poll: Duration,
    ) -> Result<(), directory::Error> {
        if !self.is_retried {
            return directory.changed().await;
        }
        let changed = tokio::time::timeout(poll, directory.changed()).await;
        changed.unwrap_or(Ok(()))
    }
}

/// Whether there is no directory to watch.
fn is_absent(error: &directory::Error) -> bool {
    let directory::Error::Watch { source, .. } = error else {
        return false;
    };
    matches!(
        source.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::symlink,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use nix::errno::Errno;
    use tempfile::TempDir;
    use tokio::{sync::mpsc, time::timeout};

    use super::*;
    use crate::{
        kubernetes::events::EventSender,
        telemetry::{metrics::Metrics, reporter::Reporter},
    };

    const PATIENCE: Duration = Duration::from_secs(30);
    const SHORT: Duration = Duration::from_millis(2);

    fn refused(path: &Path, errno: Errno) -> directory::Error {
        directory::Error::Watch {
            path: path.to_owned(),
            source: errno.into(),
        }
    }

    fn config_file(dir: &Path) -> ConfigFile {
        let events = EventSender::disabled("node-1");
        let reporter = Reporter::new(Arc::new(Metrics::new()), events);
        ConfigFile::new(dir.join("etc/config.yaml"), dir.join("run"), reporter)
    }

    fn host(text: Option<&str>) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        if let Some(text) = text {
            fs::create_dir(dir.path().join("etc")).unwrap();
            exclude(&dir, text);
        }
        dir
    }

    fn exclude(dir: &TempDir, namespace: &str) {
        let text = format!("excludedNamespaces: [{namespace}]\n");
        fs::write(dir.path().join("etc/new"), text).unwrap();
        let etc = dir.path().join("etc");
        fs::rename(etc.join("new"), etc.join("config.yaml")).unwrap();
    }

    /// Runs the watch while `check` receives the excluded namespaces of each configuration.
    async fn watched(
        file: ConfigFile,
        open: impl FnMut(&Path) -> Result<Directory, directory::Error>,
        check: impl AsyncFnOnce(mpsc::UnboundedReceiver<String>),
    ) {
        let (sender, applied) = mpsc::unbounded_channel();
        let apply = async |config: Arc<Config>| {
            let names: Vec<_> = config.excluded_namespaces.iter().cloned().collect();
            sender.send(names.join(",")).unwrap();
        };
        tokio::select! {
            () = file.watch_with(open, SHORT, apply) => panic!("the watch ended"),
            checked = timeout(PATIENCE, check(applied)) => checked.unwrap(),
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn file_is_polled_until_its_directory_can_be_watched() {
        for errno in [Errno::EMFILE, Errno::ENOSPC] {
            let dir = host(Some("one"));
            let mut file = config_file(dir.path());
            assert!(file.load().trusted);
            let (attempts, is_free) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let open = |path: &Path| {
                attempts.fetch_add(1, Ordering::Relaxed);
                match is_free.load(Ordering::Relaxed) {
                    0 => Err(refused(path, errno)),
                    _ => Directory::open(path),
                }
            };
            watched(file, open, async |mut applied| {
                exclude(&dir, "two");
                assert_eq!(applied.recv().await.unwrap(), "two");
                exclude(&dir, "three");
                assert_eq!(applied.recv().await.unwrap(), "three");
                is_free.store(1, Ordering::Relaxed);
                let before = attempts.load(Ordering::Relaxed);
                while attempts.load(Ordering::Relaxed) == before {
                    tokio::task::yield_now().await;
                }
                // The watch reports changes, and no attempt follows.
                let before = attempts.load(Ordering::Relaxed);
                exclude(&dir, "four");
                assert_eq!(applied.recv().await.unwrap(), "four");
                assert_eq!(attempts.load(Ordering::Relaxed), before);
            })
            .await;
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn absent_directory_is_opened_once() {
        for errno in [Errno::ENOENT, Errno::ENOTDIR] {
            let dir = host(None);
            let mut file = config_file(dir.path());
            assert!(file.load().trusted);
            let attempts = AtomicUsize::new(0);
            let open = |path: &Path| {
                attempts.fetch_add(1, Ordering::Relaxed);
                Err(refused(path, errno))
            };
            watched(file, open, async |mut applied| {
                let nothing = timeout(10 * SHORT, applied.recv()).await;
                assert!(nothing.is_err(), "{nothing:?}");
            })
            .await;
            assert_eq!(attempts.load(Ordering::Relaxed), 1);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn failed_read_is_retried_without_an_event() {
        let dir = host(Some("one"));
        let mut file = config_file(dir.path());
        assert!(file.load().trusted);
        let metrics = Arc::clone(&file.reporter.metrics);
        let is_valid = || metrics.config_valid.get() == 1;
        // The file that the link names is in a directory without a watch.
        let target = dir.path().join("target");
        fs::create_dir(&target).unwrap();
        let (new, path) = (dir.path().join("etc/new"), file.path.clone());
        watched(file, Directory::open, async |mut applied| {
            symlink(&target, &new).unwrap();
            fs::rename(&new, &path).unwrap();
            while is_valid() {
                tokio::task::yield_now().await;
            }
            fs::remove_dir(&target).unwrap();
            fs::write(&target, "excludedNamespaces: [two]\n").unwrap();
            assert_eq!(applied.recv().await.unwrap(), "two");
            assert!(is_valid());
        })
        .await;
    }
}
