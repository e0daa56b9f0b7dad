//! Installs the CNI plugin on the host and keeps it installed: the binary, then its entry in the network configuration.
//!
//! The runtime executes the plugins of the configuration for every pod that starts or ends. With an invalid
//! configuration no pod of the node has a network. So at every moment
//!
//! - a reader finds only complete files. They are renamed into place, which also triggers containerd's watch
//!   ([go-cni](https://github.com/containerd/go-cni/blob/v1.1.13/opts.go),
//!   [the watch](https://github.com/containerd/containerd/blob/v2.1.4/internal/cri/server/cni_conf_syncer.go));
//! - the text of other tools is kept byte for byte ([`usher_core::cni::conflist`]), also text that they write at the same
//!   time ([`step`]);
//! - each entry has a binary: the binary is installed first and removed last.
//!
//! During the edit of a list, a reader finds the old list or the new one. During the conversion of a `.conf` to a list,
//! a reader finds the `.conf`, then both files, then the list alone. Of both, runtimes read the first by name, which is
//! the old one. A symbolic link is replaced by a file; its target stays unchanged.
//!
//! The agent writes nothing while the entry is correct. If another tool keeps removing the entry, the agent restores it
//! with increasing delays ([`Backoff`]). If another tool keeps appending its own plugin, the agent leaves the order of the
//! plugins as it is ([`order`]). Another process may still be writing an invalid file, so the agent waits for [`SETTLING`]
//! before it uses the next file, as CRI-O does. The agent does not poll: it watches the directories, and the parents of
//! missing ones.
//!
//! The plugin stays installed after the agent's end, unless the agent's DaemonSet was deleted
//! ([`crate::install::cleanup`]). Without an agent the plugin accepts every pod at once.

mod order;
mod state;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;
pub(crate) use usher_client::install::settings::Settings;
use usher_client::{
    backoff::{self, Backoff},
    error_chain::chain,
    install::{
        binary::Binary,
        entry::{self, Situation},
        error::Error,
        files, removal, step,
    },
};
use usher_core::node::platform;
use usher_sys::files::directory::Places;

use self::{order::Moves, state::State};
use crate::{serve::probes::Readiness, telemetry::reporter::Reporter};

/// How long a file may be invalid because another process is still writing it.
const SETTLING: Duration = Duration::from_secs(1);
/// How long a network configuration may be missing before the installation fails. Readiness does not wait longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The polling interval if inotify instances are exhausted, so that no watch is possible.
const POLL: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Installer {
    settings: Settings,
    wanted: watch::Receiver<bool>,
    /// The chart's values for failures that other directories would prevent.
    remedy: String,
    reporter: Reporter,
    readiness: Arc<Readiness>,
    binary: Binary,
    /// The name of the temporary files.
    temporary: String,
    backoff: Backoff,
    moves: Moves,
    /// Whether this reconciliation may write. The backoff decides.
    may_write: bool,
    /// Since when the file for the entry has been invalid.
    unsettled_since: Option<Instant>,
    unsettled_reported: bool,
    /// Since when no file can have the entry.
    waiting_since: Option<Instant>,
    state: Option<State>,
    was_installed: bool,
    /// An Event reported a failure, and none the installation after it.
    failure_reported: bool,
}

/// The result of a reconciliation.
#[derive(Debug)]
enum Outcome {
    /// Reconcile after the next change.
    Settled(State),
    /// Reconcile at this time, or after the next change.
    RetryAt(Instant, Option<State>),
}

impl Installer {
    /// Keeps the plugin installed while `wanted` is true.
    pub(crate) fn new(
        settings: Settings,
        wanted: watch::Receiver<bool>,
        platform: Option<&str>,
        reporter: Reporter,
        readiness: Arc<Readiness>,
    ) -> Self {
        let binary = Binary::new(settings.source.clone(), settings.binary());
        Self {
            settings,
            wanted,
            remedy: platform::remedy(platform),
            reporter,
            readiness,
            binary,
            temporary: files::temporary(),
            backoff: Backoff::default(),
            moves: Moves::default(),
            may_write: false,
            unsettled_since: None,
            unsettled_reported: false,
            waiting_since: None,
            state: None,
            was_installed: false,
            failure_reported: false,
        }
    }

    /// Reconciles until the agent ends.
    pub(crate) async fn serve(mut self) {
        for dir in [&self.settings.conf_dir, &self.settings.bin_dir] {
            if let Err(error) = files::sweep(dir) {
                tracing::warn!(error = %chain(&error), "could not remove temporary files");
            }
        }
        loop {
            // Watch before reading, so that no change is missed.
            let places = Places::open(&[&self.settings.conf_dir, &self.settings.bin_dir]);
            let next = self.reconcile(Instant::now());
            let changed = async {
                let error = match places {
                    Ok(mut places) => match places.changed().await {
                        Ok(()) => return,
                        Err(error) => error,
                    },
                    Err(error) => error,
                };
                tracing::warn!(error = %chain(&error), "could not watch the network configuration; polling it");
                tokio::time::sleep(POLL).await;
            };
            tokio::select! {
                () = changed => {}
                () = backoff::wait_until(next) => {}
                received = self.wanted.changed() => if received.is_err() {
                    // The event loop has ended, so the agent is shutting down.
                    return std::future::pending().await;
                },
            }
        }
    }

    /// Reads the host's files and makes the necessary changes. Returns the time of the next reconciliation; a change of
    /// the directories triggers it earlier.
    fn reconcile(&mut self, now: Instant) -> Option<Instant> {
        self.may_write = false;
        let wanted = *self.wanted.borrow_and_update();
        let outcome = if wanted {
            self.install(now)
        } else {
            self.remove_entry(now)
        };
        match outcome {
            Ok(Outcome::Settled(state)) => {
                self.backoff.rest();
                self.enter(state);
                None
            }
            Ok(Outcome::RetryAt(then, state)) => {
                if let Some(state) = state {
                    self.enter(state);
                }
                Some(then)
            }
            Err(error) => {
                if !self.may_write {
                    self.backoff.tried(now);
                }
                let again = self.backoff.due(now);
                if matches!(error, Error::Changed { .. }) {
                    tracing::debug!(error = %chain(&error), "another process changed a file at the same time");
                } else {
                    let mut text = chain(&error);
                    if error.is_about_directories() {
                        text = format!("{text}; {}", self.remedy);
                    }
                    self.enter(match wanted {
                        true => State::Failed {
                            error: text,
                            is_in_place: self.is_in_place(),
                        },
                        false => State::StillThere { error: text },
                    });
                }
                Some(again)
            }
        }
    }

    /// Whether the runtime calls a plugin of usher, perhaps an earlier one.
    fn is_in_place(&self) -> bool {
        let files = files::list(&self.settings.conf_dir);
        self.binary.exists() && files.is_ok_and(|files| entry::is_present(&self.settings, &files))
    }

    /// Allows this reconciliation to write and returns None, or returns the time of the next write.
    fn next_write(&mut self, now: Instant) -> Option<Instant> {
        if self.may_write {
            return None;
        }
        let due = self.backoff.due(now);
        if due > now {
            return Some(due);
        }
        self.backoff.tried(now);
        self.may_write = true;
        None
    }

    fn install(&mut self, now: Instant) -> Result<Outcome, Error> {
        if !self.binary.is_current()? {
            // Pods cannot start or end without a binary, so a removed one is installed without backoff.
            let has_failed = matches!(self.state, Some(State::Failed { .. }));
            let is_urgent = !has_failed && !self.binary.exists();
            if let Some(due) = self.next_write(now).filter(|_| !is_urgent) {
                return Ok(Outcome::RetryAt(due, None));
            }
            if let Err(error) = self.binary.install(&self.temporary) {
                // An entry without a binary would block every pod's start and end.
                if !self.binary.exists()
                    && let Err(error) =
                        removal::remove_entries(&self.settings.conf_dir, &self.temporary)
                {
                    tracing::warn!(error = %chain(&error), "could not remove the entry of the missing CNI plugin");
                }
                return Err(error);
            }
            tracing::info!(path = %self.settings.binary().display(), "installed the CNI plugin's binary");
        }
        let (name, steps) = match self.situation(now)? {
            Situation::Absent { name, steps } => (name, steps),
            Situation::NotLast { name, steps } if self.moves.is_allowed(now) => {
                return match self.next_write(now) {
                    Some(due) => Ok(Outcome::RetryAt(due, Some(State::Installed { name }))),
                    None => self.move_to_end(&name, &steps, now),
                };
            }
            other => return Ok(self.outcome(other, now)),
        };
        if let Some(due) = self.next_write(now) {
            return Ok(Outcome::RetryAt(due, Some(State::Absent { name })));
        }
        step::run(&self.settings.conf_dir, &self.temporary, &steps)?;
        if self.was_installed {
            self.reporter.metrics.cni_reinstalled.inc();
            tracing::warn!(file = name, "restored the CNI plugin's entry");
        }
        let after = self.situation(now)?;
        Ok(self.outcome(after, now))
    }

    fn situation(&mut self, now: Instant) -> Result<Situation, Error> {
        let files = files::list(&self.settings.conf_dir)?;
        let situation = entry::look(&self.settings, &files, false)?;
        if !matches!(situation, Situation::Unsettled { .. }) {
            (self.unsettled_since, self.unsettled_reported) = (None, false);
            return Ok(situation);
        }
        let since = *self.unsettled_since.get_or_insert(now);
        if now < since + SETTLING {
            return Ok(situation);
        }
        let settled = entry::look(&self.settings, &files, true);
        if let (Situation::Unsettled { name }, false) = (situation, self.unsettled_reported) {
            self.unsettled_reported = true;
            tracing::warn!(
                file = name,
                "found an invalid network configuration, with which containerd has no network"
            );
        }
        settled
    }

    fn outcome(&mut self, situation: Situation, now: Instant) -> Outcome {
        match situation {
            Situation::Installed { name } => Outcome::Settled(State::Installed { name }),
            Situation::NotLast { name, .. } if self.moves.is_allowed(now) => {
                Outcome::RetryAt(self.backoff.due(now), Some(State::Installed { name }))
            }
            Situation::NotLast { name, .. } => {
                self.report_order(&name);
                Outcome::Settled(State::Installed { name })
            }
            Situation::Nowhere { why } => {
                let end = *self.waiting_since.get_or_insert(now) + PATIENCE;
                if now >= end {
                    let error = format!("{why}; {}", self.remedy);
                    return Outcome::Settled(State::Failed {
                        error,
                        is_in_place: false,
                    });
                }
                self.backoff.rest();
                Outcome::RetryAt(end, Some(State::Waiting { why }))
            }
            Situation::Unsettled { name } => {
                tracing::debug!(
                    file = name,
                    "found an invalid network configuration that may be being written"
                );
                Outcome::RetryAt(self.unsettled_since.unwrap_or(now) + SETTLING, None)
            }
            Situation::Absent { name, .. } => {
                Outcome::RetryAt(self.backoff.due(now), Some(State::Absent { name }))
            }
        }
    }

    /// Removes the entry. The binary stays, because the runtime calls it when a pod ends that was started with it.
    fn remove_entry(&mut self, now: Instant) -> Result<Outcome, Error> {
        let dir = &self.settings.conf_dir;
        if removal::has_entries(dir)? {
            if let Some(due) = self.next_write(now) {
                return Ok(Outcome::RetryAt(due, None));
            }
            removal::remove_entries(&self.settings.conf_dir, &self.temporary)?;
        }
        if self.state != Some(State::Unwanted) {
            for file in removal::nested(&self.settings.conf_dir)? {
                tracing::warn!(
                    file,
                    "another plugin's configuration contains the CNI plugin; the runtime calls it until Multus or \
                     an administrator writes the file again"
                );
            }
        }
        self.was_installed = false;
        Ok(Outcome::Settled(State::Unwanted))
    }
}

#[cfg(test)]
mod tests;
