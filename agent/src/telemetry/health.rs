//! What the agent knows of its own surroundings and no number says: when the kubelet last gave its pods and what went
//! wrong since, how the watch on the Node stands, the plugin on the host, the configuration that counts. Kept for people who ask
//! (`usher status`, `usher check`, `usher config`); nothing is decided by it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use usher_client::run_dir::Annotations;
use usher_core::{
    admin::{self, ApiServer, Configuration, Kubelet, Plugin},
    settings::{
        config::{Config, origin},
        mode::{Mode, Modes},
    },
};

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Vitals(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    listed: Option<Instant>,
    kubelet: Option<String>,
    watched: bool,
    heard: Option<Instant>,
    lost: Option<String>,
    quit: Option<(Mode, Instant)>,
    hold: Option<(Mode, Instant)>,
    plugin: Plugin,
    configuration: Configuration,
    settings: Vec<origin::Setting>,
    modes: Vec<origin::Setting>,
}

impl Vitals {
    /// What came of asking the kubelet.
    pub(crate) fn listed(&self, error: Option<&str>) {
        let mut known = self.known();
        known.kubelet = error.map(str::to_owned);
        if error.is_none() {
            known.listed = Some(Instant::now());
        }
    }

    /// Something came from the API server, or the watch broke.
    pub(crate) fn heard(&self, error: Option<&str>) {
        let mut known = self.known();
        known.watched = true;
        known.lost = error.map(str::to_owned);
        if error.is_none() {
            known.heard = Some(Instant::now());
        }
    }

    /// What usher may do from now on, and the Node's annotations that say so.
    pub(crate) fn modes(&self, modes: Modes, annotations: &Annotations) {
        let mut known = self.known();
        let now = Instant::now();
        let since = |before: Option<(Mode, Instant)>, mode| match before {
            Some((same, since)) if same == mode => Some((same, since)),
            _ => Some((mode, now)),
        };
        known.quit = since(known.quit, modes.quit);
        known.hold = since(known.hold, modes.hold);
        known.modes = origin::modes(modes, annotations);
    }

    /// How the plugin on the host stands.
    pub(crate) fn plugin(&self, plugin: Plugin) {
        self.known().plugin = plugin;
    }

    /// A configuration counts, that was read from this text.
    pub(crate) fn configured(&self, config: &Config, file: &str, text: &str) {
        let settings = origin::settings(config, file, text);
        self.known().settings = settings;
    }

    /// What came of reading the file.
    pub(crate) fn read(&self, file: &str, error: Option<&str>) {
        self.known().configuration = Configuration {
            file: file.to_owned(),
            error: error.map(str::to_owned),
        };
    }

    /// Puts what is known into a state of usher.
    pub(crate) fn tell(&self, status: &mut admin::Status, now: Instant) {
        let known = self.known();
        let ago = |then: Instant| {
            let ago = now.saturating_duration_since(then).as_millis();
            u64::try_from(ago).unwrap_or(u64::MAX)
        };
        status.kubelet = Kubelet {
            listed_ms_ago: known.listed.map(ago),
            error: known.kubelet.clone(),
        };
        status.api_server = ApiServer {
            watched: known.watched,
            heard_ms_ago: known.heard.map(ago),
            error: known.lost.clone(),
        };
        status.modes.quit_for_ms = known.quit.map(|(_, since)| ago(since));
        status.modes.hold_for_ms = known.hold.map(|(_, since)| ago(since));
        status.plugin = known.plugin.clone();
        status.configuration = known.configuration.clone();
    }

    /// The modes and the configuration that count, value by value, and the file's state.
    pub(crate) fn settings(&self) -> (Vec<origin::Setting>, Configuration) {
        let known = self.known();
        let settings = known.modes.iter().chain(&known.settings);
        (settings.cloned().collect(), known.configuration.clone())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_mode_that_stays_keeps_its_beginning() {
        let vitals = Vitals::default();
        let modes = |quit, hold| Modes { quit, hold };
        let none = Annotations::new();
        vitals.modes(modes(Mode::Enforce, Mode::Off), &none);
        let begin = vitals.known().quit;
        vitals.modes(modes(Mode::Enforce, Mode::Observe), &none);
        assert_eq!(vitals.known().quit, begin);
        assert_eq!(
            vitals.known().hold.map(|(mode, _)| mode),
            Some(Mode::Observe)
        );
    }

    #[test]
    fn what_went_wrong_stays_beside_what_went_well_before() {
        let vitals = Vitals::default();
        vitals.listed(None);
        vitals.listed(Some("status 401"));
        vitals.heard(Some("refused"));
        let mut status = admin::Status::default();
        vitals.tell(&mut status, Instant::now() + Duration::from_secs(5));
        assert!(status.kubelet.listed_ms_ago.is_some_and(|ago| ago >= 5000));
        assert_eq!(status.kubelet.error.as_deref(), Some("status 401"));
        assert!(status.api_server.watched && status.api_server.heard_ms_ago.is_none());
        vitals.listed(None);
        vitals.tell(&mut status, Instant::now());
        assert_eq!(status.kubelet.error, None);
    }
}
