//! State of the agent's dependencies that no metric has: the kubelet's last pod list and error, the watch on the Node,
//! the CNI plugin on the host, the configuration in use.
//!
//! `usher status`, `usher check` and `usher config` print it. It affects one decision: whether a rejected request
//! means that the agent's DaemonSet was deleted ([`crate::kubernetes::own_daemonset`]).

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use usher_core::{
    admin::{self, ApiServer, Configuration, Kubelet, Plugin},
    settings::{
        config::{Config, origin},
        mode::{Mode, NodeModes},
    },
};

#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pods_listed: Option<Instant>,
    kubelet_error: Option<String>,
    node_watched: bool,
    node_received: Option<Instant>,
    node_watch_error: Option<String>,
    unread_namespaces: Vec<UnreadNamespace>,
    quit: Option<(Mode, Instant)>,
    hold: Option<(Mode, Instant)>,
    linger: Option<(Mode, Instant)>,
    plugin: Plugin,
    configuration: Configuration,
    settings: Vec<origin::Setting>,
    modes: NodeModes,
}

/// A Namespace whose last request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadNamespace {
    pub(crate) line: String,
    /// When the failure no longer counts. The Namespace has no pods if it was not requested again until then.
    pub(crate) until: Instant,
}

impl Health {
    pub(crate) fn set_kubelet(&self, error: Option<&str>) {
        let mut state = self.state();
        state.kubelet_error = error.map(str::to_owned);
        if error.is_none() {
            state.pods_listed = Some(Instant::now());
        }
    }

    /// Records that the API server sent the Node, or the error that ended the watch.
    pub(crate) fn set_node_watch(&self, error: Option<&str>) {
        let mut state = self.state();
        state.node_watched = true;
        state.node_watch_error = error.map(str::to_owned);
        if error.is_none() {
            state.node_received = Some(Instant::now());
        }
    }

    /// Whether the API server sent the Node and the watch has not failed since.
    pub(crate) fn is_node_watched(&self) -> bool {
        let state = self.state();
        state.node_watched && state.node_watch_error.is_none()
    }

    pub(crate) fn set_unread_namespaces(&self, unread: Vec<UnreadNamespace>) {
        self.state().unread_namespaces = unread;
    }

    pub(crate) fn set_modes(&self, modes: &NodeModes) {
        let mut state = self.state();
        let now = Instant::now();
        let since = |before: Option<(Mode, Instant)>, mode| match before {
            Some((same, since)) if same == mode => Some((same, since)),
            _ => Some((mode, now)),
        };
        state.quit = since(state.quit, modes.quit.mode);
        state.hold = since(state.hold, modes.hold.mode);
        state.linger = since(state.linger, modes.linger.mode);
        state.modes = modes.clone();
    }

    pub(crate) fn set_plugin(&self, plugin: Plugin) {
        self.state().plugin = plugin;
    }

    /// The configuration in use, and the text that it was parsed from.
    pub(crate) fn set_settings(&self, config: &Config, file: &str, text: &str) {
        let settings = origin::settings(config, file, text);
        self.state().settings = settings;
    }

    pub(crate) fn set_configuration(&self, file: &str, error: Option<&str>) {
        self.state().configuration = Configuration {
            file: file.to_owned(),
            error: error.map(str::to_owned),
        };
    }

    pub(crate) fn fill_status(&self, status: &mut admin::Status, now: Instant) {
        let state = self.state();
        let ago = |then: Instant| {
            let ago = now.saturating_duration_since(then).as_millis();
            u64::try_from(ago).unwrap_or(u64::MAX)
        };
        let unread = state.unread_namespaces.iter();
        let unread = unread.filter(|unread| now < unread.until);
        status.kubelet = Kubelet {
            listed_ms_ago: state.pods_listed.map(ago),
            error: state.kubelet_error.clone(),
        };
        status.api_server = ApiServer {
            watched: state.node_watched,
            last_response_ms_ago: state.node_received.map(ago),
            error: state.node_watch_error.clone(),
            unread_namespaces: unread.map(|unread| unread.line.clone()).collect(),
        };
        status.modes.quit_for_ms = state.quit.map(|(_, since)| ago(since));
        status.modes.hold_for_ms = state.hold.map(|(_, since)| ago(since));
        status.modes.linger_for_ms = state.linger.map(|(_, since)| ago(since));
        status.modes.quit_source = Some(state.modes.quit.origin());
        status.modes.hold_source = Some(state.modes.hold.origin());
        status.modes.linger_source = Some(state.modes.linger.origin());
        status.modes.limit = [&state.modes.quit, &state.modes.hold, &state.modes.linger]
            .into_iter()
            .find_map(|setting| setting.limit);
        status.plugin = state.plugin.clone();
        status.configuration = state.configuration.clone();
    }

    /// The modes and settings in force, value by value, and the state of the configuration file.
    pub(crate) fn settings(&self) -> (Vec<origin::Setting>, Configuration) {
        let state = self.state();
        let mut settings = origin::modes(&state.modes);
        settings.extend(state.settings.iter().cloned());
        (settings, state.configuration.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use usher_core::settings::mode::Setting;

    use super::*;

    #[test]
    fn unchanged_mode_keeps_its_start_time() {
        let health = Health::default();
        let modes = |quit, hold| {
            let setting = |mode| Setting {
                mode,
                ..Setting::default()
            };
            NodeModes {
                quit: setting(quit),
                hold: setting(hold),
                ..NodeModes::default()
            }
        };
        health.set_modes(&modes(Mode::Enforce, Mode::Off));
        let begin = health.state().quit;
        health.set_modes(&modes(Mode::Enforce, Mode::Observe));
        assert_eq!(health.state().quit, begin);
        assert_eq!(
            health.state().hold.map(|(mode, _)| mode),
            Some(Mode::Observe)
        );
    }

    #[test]
    fn error_is_kept_with_the_last_success() {
        let health = Health::default();
        health.set_kubelet(None);
        health.set_kubelet(Some("status 401"));
        health.set_node_watch(Some("refused"));
        let mut status = admin::Status::default();
        health.fill_status(&mut status, Instant::now() + Duration::from_secs(5));
        assert!(status.kubelet.listed_ms_ago.is_some_and(|ago| ago >= 5000));
        assert_eq!(status.kubelet.error.as_deref(), Some("status 401"));
        assert!(status.api_server.watched && status.api_server.last_response_ms_ago.is_none());
        health.set_kubelet(None);
        health.fill_status(&mut status, Instant::now());
        assert_eq!(status.kubelet.error, None);
    }

    #[test]
    fn unread_namespace_that_is_not_requested_again_is_dropped() {
        let health = Health::default();
        let now = Instant::now();
        health.set_unread_namespaces(vec![UnreadNamespace {
            line: "gone: forbidden".to_owned(),
            until: now + Duration::from_secs(150),
        }]);
        let unread = |after| {
            let mut status = admin::Status::default();
            health.fill_status(&mut status, now + Duration::from_secs(after));
            status.api_server.unread_namespaces
        };
        assert_eq!(unread(149), ["gone: forbidden"]);
        assert!(unread(150).is_empty());
    }
}
