//! The plan of a pod as data, with the kubelet's part.

use std::time::Duration;

use usher_tests::synthetic::wire::{Capture, Client};
use usher_tests::synthetic::{ContainerSpec, PodSpec, RestartPolicy, RestartRule};

use crate::sidecar::Sidecar;

/// The exit code of a killed container.
pub(crate) const KILLED: u8 = 137;
/// The namespace that the configuration excludes.
pub(crate) const EXCLUDED: &str = "left";
/// A remote address without a listener.
const FAR: &str = "10.7.7.7:8080";

#[derive(Debug, Clone)]
pub(crate) struct PodPlan {
    /// Unique in a run.
    pub(crate) name: String,
    /// The time of its creation, relative to the start of its round.
    pub(crate) at: Duration,
    pub(crate) policy: RestartPolicy,
    pub(crate) apps: Vec<App>,
    pub(crate) sidecars: Vec<Sidecar>,
    /// The delay between the creation of its apps and of its sidecars.
    pub(crate) sidecar_delay: Option<Duration>,
    /// Its variation.
    pub(crate) variation: Variation,
    /// The hold of its first app's first connection.
    pub(crate) hold: Option<Hold>,
}

/// One app and its runs; the kubelet may not start the later ones.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// The duration of each run, and its exit code.
    pub(crate) lives: Vec<(Duration, u8)>,
    pub(crate) policy: Option<RestartPolicy>,
    /// It is restarted after this code, under every policy.
    pub(crate) again_after: Option<u8>,
}

/// The variation of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variation {
    None,
    /// `usher.dev/quit: "false"`
    OptedOut,
    /// It is in an excluded namespace.
    Excluded,
    /// Invalid annotations.
    BadAnnotations,
    Delayed,
    /// `usher.dev/linger: "true"`, on a node whose runtime keeps no state.
    Lingers,
    Init,
    /// One pid namespace for all containers.
    SharedPids,
    HostNetwork,
    /// Removed this long after its creation.
    Removed(Duration),
    /// Deleted through the API right after its creation; its sidecars run on for a while.
    Deleted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// It includes the start.
    pub(crate) start: bool,
    pub(crate) deadline: Duration,
    /// The time between the sidecar's start and its readiness.
    pub(crate) ready: Option<Duration>,
}

impl PodPlan {
    pub(crate) fn spec(&self) -> PodSpec {
        let mut spec = PodSpec::new(&self.name).policy(self.policy);
        spec.namespace = self.namespace().to_owned();
        for (number, app) in self.apps.iter().enumerate() {
            spec = spec.with(self.app(number, app));
        }
        for sidecar in &self.sidecars {
            let stand_in = sidecar.stand_in();
            for (key, value) in stand_in.annotations {
                spec = spec.annotation(key, value);
            }
            let late = self.sidecar_delay.is_some();
            let container = stand_in.container;
            spec = spec.with(if late { container.later() } else { container });
        }
        if let Some(hold) = self.hold {
            let deadline = format!("{}s", hold.deadline.as_secs());
            let how = if hold.start { "start" } else { "connect" };
            spec = spec
                .captured(Capture::default())
                .impatient()
                .annotation("usher.dev/hold", how)
                .annotation("usher.dev/hold-deadline", &deadline);
        } else {
            spec = spec.annotation("usher.dev/hold", "false");
        }
        self.twisted(spec)
    }

    fn twisted(&self, spec: PodSpec) -> PodSpec {
        match self.variation {
            Variation::OptedOut => spec.annotation("usher.dev/quit", "false"),
            Variation::BadAnnotations => spec
                .annotation("usher.dev/quit", "fasle")
                .annotation("usher.dev/quit-delay", "soon"),
            Variation::Delayed => spec.annotation("usher.dev/quit-delay", "700ms"),
            Variation::Lingers => spec.annotation("usher.dev/linger", "true"),
            Variation::Init => spec.init(ContainerSpec::brief_app(
                "init",
                Duration::from_millis(60),
                0,
            )),
            Variation::SharedPids => spec.sharing_processes(),
            Variation::HostNetwork => spec.host_network(),
            _ => spec,
        }
    }

    fn app(&self, number: usize, app: &App) -> ContainerSpec {
        let name = app_name(number);
        let mut container = match self.hold {
            Some(_) if number == 0 => ContainerSpec::client(&name, Client::to(FAR).staying()),
            _ => ContainerSpec::app(&name),
        };
        container.restart_policy = app.policy;
        if let Some(code) = app.again_after {
            container = container.rule(RestartRule::restart_after(&[i32::from(code)]));
        }
        container
    }

    pub(crate) fn namespace(&self) -> &'static str {
        if self.variation == Variation::Excluded {
            EXCLUDED
        } else {
            "shop"
        }
    }

    /// Whether every app exits for good.
    pub(crate) fn finishes(&self) -> bool {
        self.apps.iter().all(|app| last_life(self.policy, app).1)
    }
}

pub(crate) fn app_name(number: usize) -> String {
    format!("app-{number}")
}

/// Whether the kubelet restarts a container after this exit code
/// ([pod lifecycle](https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy)).
pub(crate) fn restarts(policy: RestartPolicy, app: &App, code: u8) -> bool {
    if app.again_after == Some(code) {
        return true;
    }
    match app.policy.unwrap_or(policy) {
        RestartPolicy::Never => false,
        RestartPolicy::OnFailure => code != 0,
        RestartPolicy::Always => true,
    }
}

/// The number of an app's last run, and whether it exited for good then; otherwise it waits for the kubelet.
pub(crate) fn last_life(policy: RestartPolicy, app: &App) -> (usize, bool) {
    let lives = app.lives.iter().enumerate();
    for (number, (_, code)) in lives {
        if !restarts(policy, app, *code) {
            return (number, true);
        }
    }
    (app.lives.len() - 1, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use usher_tests::synthetic::RestartPolicy::{Always, Never, OnFailure};

    fn app(codes: &[u8]) -> App {
        App {
            lives: codes.iter().map(|code| (Duration::ZERO, *code)).collect(),
            policy: None,
            again_after: None,
        }
    }

    #[test]
    fn ends_for_good() {
        let own = |policy, codes: &[u8]| App {
            policy: Some(policy),
            ..app(codes)
        };
        let ruled = |code, codes: &[u8]| App {
            again_after: Some(code),
            ..app(codes)
        };
        let table = [
            (Never, app(&[0]), (0, true)),
            (Never, app(&[KILLED, 0]), (0, true)),
            (OnFailure, app(&[0]), (0, true)),
            (OnFailure, app(&[1, 1, 0]), (2, true)),
            (OnFailure, app(&[1]), (0, false)),
            (Always, app(&[0, 0]), (1, false)),
            (Never, own(OnFailure, &[1, 0]), (1, true)),
            (OnFailure, own(Never, &[1]), (0, true)),
            (Never, own(Always, &[0]), (0, false)),
            (Never, ruled(42, &[42, 1]), (1, true)),
            (OnFailure, ruled(0, &[0]), (0, false)),
        ];
        for (policy, app, expected) in table {
            assert_eq!(last_life(policy, &app), expected, "{policy:?} {app:?}");
        }
    }
}
