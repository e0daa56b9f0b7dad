//! Puts the CNI plugin on the host, and keeps it there: the binary, then its entry in the network configuration.
//!
//! The runtime executes what the configuration names, for every pod that starts or ends, and a configuration that
//! it cannot read takes the network of the whole node away. So at every moment
//!
//! - a reader finds whole files only: new ones come by renaming within the directory, which is also what containerd
//!   takes notice of ([go-cni](https://github.com/containerd/go-cni/blob/v1.1.13/opts.go) and
//!   [its watch](https://github.com/containerd/containerd/blob/v2.1.4/internal/cri/server/cni_conf_syncer.go));
//! - what others wrote is kept byte for byte ([`usher_core::cni::conflist`]), also what they wrote at the same moment
//!   ([`step`]);
//! - there is a binary wherever there is an entry: it comes first and goes last.
//!
//! What a reader sees while a list is edited: the old list, then the new one. While a `.conf` becomes a list: the
//! `.conf`; for a moment both, of which runtimes take the first by name, the old one; then the list alone. A link in the place of a file becomes a file; what it led to stays as it is.
//!
//! Nothing is written while all is right. Somebody who takes the entry out again and again is let win for longer and
//! longer ([`Backoff`]). A file that cannot be read is given [`SETTLING`], since it may be about to be written; only
//! then the next one counts, as it does for CRI-O. There is no polling: the directories are watched, and where they
//! are missing, those above them.
//!
//! An agent that ends leaves all in place: without an agent the plugin accepts every pod at once.

mod state;

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::watch;
pub(crate) use usher_client::install::settings::Settings;
use usher_client::{
    backoff::Backoff,
    error_chain::chain,
    install::{
        binary::Binary,
        entry::{self, Situation},
        error::Error,
        files, removal, step,
    },
};
use usher_core::kube_event::NodeCondition;
use usher_sys::files::directory::Places;

use self::state::State;
use crate::{serve::http::Readiness, telemetry::reporter::Reporter};

/// How long a file may be unreadable before it counts as broken, and not as being written.
const SETTLING: Duration = Duration::from_secs(1);
/// How long a network configuration may be missing before that is a failure, for which nobody waits any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often to look where the kernel tells of no changes, for want of inotify instances.
const UNTOLD: Duration = Duration::from_secs(30);

/// The service.
#[derive(Debug)]
pub(crate) struct Installer {
    settings: Settings,
    wanted: watch::Receiver<bool>,
    reporter: Reporter,
    readiness: Arc<Readiness>,
    binary: Binary,
    /// The name of our temporary files.
    temporary: String,
    backoff: Backoff,
    /// Whether this look may write.
    may_write: bool,
    /// Since when the file that counts cannot be read.
    unsettled: Option<Instant>,
    /// Whether that was said.
    is_told: bool,
    /// Since when there is no file that the entry could be in.
    waiting: Option<Instant>,
    state: Option<State>,
    was_installed: bool,
}

/// What a look comes to.
#[derive(Debug)]
enum Outcome {
    /// Nothing is to be done until something changes.
    Rest(State),
    /// It goes on then, or when something changes before.
    Later(Instant, Option<State>),
}

impl Installer {
    /// It is installed while `wanted` says true.
    pub(crate) fn new(
        settings: Settings,
        wanted: watch::Receiver<bool>,
        reporter: Reporter,
        readiness: Arc<Readiness>,
    ) -> Self {
        let binary = Binary::new(settings.source.clone(), settings.binary());
        Self {
            settings,
            wanted,
            reporter,
            readiness,
            binary,
            temporary: files::temporary(),
            backoff: Backoff::default(),
            may_write: false,
            unsettled: None,
            is_told: false,
            waiting: None,
            state: None,
            was_installed: false,
        }
    }

    /// Installs, and goes on for ever.
    pub(crate) async fn serve(mut self) {
        for dir in [&self.settings.conf_dir, &self.settings.bin_dir] {
            if let Err(error) = files::sweep(dir) {
                tracing::warn!(error = %chain(&error), "could not remove temporary files");
            }
        }
        loop {
            // Before looking, so that no change is missed.
            let places = Places::open(&[&self.settings.conf_dir, &self.settings.bin_dir]);
            let next = self.look(Instant::now());
            let changed = async {
                let error = match places {
                    Ok(mut places) => match places.changed().await {
                        Ok(()) => return,
                        Err(error) => error,
                    },
                    Err(error) => error,
                };
                tracing::warn!(error = %chain(&error), "looking at the network configuration without being told of changes");
                tokio::time::sleep(UNTOLD).await;
            };
            let pause = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = changed => {}
                () = pause => {}
                told = self.wanted.changed() => if told.is_err() {
                    // Nobody is left who could want anything else: the agent is ending.
                    return std::future::pending().await;
                },
            }
        }
    }

    /// Looks at the host and does what is due; says when it is to be done again, unless something changes before.
    fn look(&mut self, now: Instant) -> Option<Instant> {
        self.may_write = false;
        let wanted = *self.wanted.borrow_and_update();
        let outcome = if wanted {
            self.install(now)
        } else {
            self.take_out(now)
        };
        match outcome {
            Ok(Outcome::Rest(state)) => {
                self.backoff.rest();
                self.enter(state);
                None
            }
            Ok(Outcome::Later(then, state)) => {
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
                    tracing::debug!(error = %chain(&error), "somebody else was faster");
                } else {
                    self.enter(State::Failed {
                        error: chain(&error),
                    });
                }
                Some(again)
            }
        }
    }

    /// None when this look may write; else when one may.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
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
            // One that was removed is a matter of pods that cannot start or end; all else can wait for its turn.
            let has_failed = matches!(self.state, Some(State::Failed { .. }));
            let is_urgent = !has_failed && !self.binary.exists();
            if let Some(due) = self.turn(now).filter(|_| !is_urgent) {
                return Ok(Outcome::Later(due, None));
            }
            if let Err(error) = self.binary.install(&self.temporary) {
                // Without a binary behind the entry no pod could start or end.
                if !self.binary.exists() {
                    removal::remove_entries(&self.settings.conf_dir, &self.temporary)?;
                }
                return Err(error);
            }
            tracing::info!(path = %self.settings.binary().display(), "installed the CNI plugin's binary");
        }
        let (name, steps) = match self.situation(now)? {
            Situation::Absent { name, steps } => (name, steps),
            other => return Ok(self.without_writing(other, now)),
        };
        if let Some(due) = self.turn(now) {
            return Ok(Outcome::Later(due, Some(State::Absent { name })));
        }
        step::run(&self.settings.conf_dir, &self.temporary, &steps)?;
        if self.was_installed {
            self.reporter.metrics.cni_reinstalled.inc();
            tracing::warn!(file = name, "put the CNI plugin's entry back");
        }
        let after = self.situation(now)?;
        Ok(self.without_writing(after, now))
    }

    fn situation(&mut self, now: Instant) -> Result<Situation, Error> {
        let files = files::list(&self.settings.conf_dir)?;
        let situation = entry::look(&self.settings, &files, false)?;
        if !matches!(situation, Situation::Unsettled { .. }) {
            (self.unsettled, self.is_told) = (None, false);
            return Ok(situation);
        }
        let since = *self.unsettled.get_or_insert(now);
        if now < since + SETTLING {
            return Ok(situation);
        }
        let settled = entry::look(&self.settings, &files, true);
        if let (Situation::Unsettled { name }, false) = (situation, self.is_told) {
            self.is_told = true;
            tracing::warn!(
                file = name,
                "containerd has no network while this file cannot be read"
            );
        }
        settled
    }

    fn without_writing(&mut self, situation: Situation, now: Instant) -> Outcome {
        match situation {
            Situation::Installed { name } => Outcome::Rest(State::Installed { name }),
            Situation::Nowhere { why } => {
                let end = *self.waiting.get_or_insert(now) + PATIENCE;
                if now >= end {
                    return Outcome::Rest(State::Failed { error: why });
                }
                self.backoff.rest();
                Outcome::Later(end, Some(State::Waiting { why }))
            }
            Situation::Unsettled { name } => {
                tracing::debug!(file = name, "cannot be read; perhaps it is being written");
                Outcome::Later(self.unsettled.unwrap_or(now) + SETTLING, None)
            }
            Situation::Absent { name, .. } => {
                Outcome::Later(self.backoff.due(now), Some(State::Absent { name }))
            }
        }
    }

    /// The entry alone: pods that are there may yet ask for the binary.
    fn take_out(&mut self, now: Instant) -> Result<Outcome, Error> {
        let dir = &self.settings.conf_dir;
        if removal::has_entries(dir)? {
            if let Some(due) = self.turn(now) {
                return Ok(Outcome::Later(due, None));
            }
            removal::remove_entries(&self.settings.conf_dir, &self.temporary)?;
        }
        self.was_installed = false;
        Ok(Outcome::Rest(State::Unwanted))
    }

    /// Says what changed, once.
    fn enter(&mut self, state: State) {
        if !matches!(state, State::Waiting { .. } | State::Failed { .. }) {
            self.waiting = None;
        }
        let is_waiting_to_try_again = matches!(state, State::Absent { .. })
            && matches!(self.state, Some(State::Failed { .. }));
        if self.state.as_ref() == Some(&state) || is_waiting_to_try_again {
            return;
        }
        let is_installed = matches!(state, State::Installed { .. });
        self.was_installed |= is_installed;
        self.reporter
            .metrics
            .cni_installed
            .set(i64::from(is_installed));
        state.tell(&self.settings.conf_dir);
        self.tell_others(&state);
        self.reporter.health.set_plugin(state.plugin());
        self.state = Some(state);
    }

    fn tell_others(&self, state: &State) {
        match (&self.state, state) {
            (_, State::Failed { error }) => {
                let condition = NodeCondition::CniPluginInstallFailed(error.clone());
                self.reporter.events.send_node(&condition);
            }
            (Some(State::Failed { .. }), State::Installed { name }) => {
                let condition = NodeCondition::CniPluginInstalled(name.clone());
                self.reporter.events.send_node(&condition);
            }
            _ => {}
        }
        if state.is_settled() {
            self.readiness.plugin_settled.store(true, Ordering::Release);
            self.readiness.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
