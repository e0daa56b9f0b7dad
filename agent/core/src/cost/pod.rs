//! What one pod costs: how long its sidecars run on, and the gap between the ends of a sidecar and of the apps.

use std::time::Duration;

use crate::{
    admin::NamespaceCost,
    base::time::Timestamp,
    engine::kubelet_poll::KubeletPoll,
    pod::{
        completion::{self, Progress},
        requests::Requests,
        state::runs::Runs,
        view::PodView,
    },
    settings::mode::Mode,
};

#[derive(Debug, Clone, Default)]
pub(crate) struct PodCost {
    run_on: RunOn,
    has_run_on: bool,
    /// Ends of sidecars up to then happened before the deletion of the pod.
    before_deletion: Option<Timestamp>,
    /// The end of a sidecar for which the kubelet was queried.
    queried: Option<Timestamp>,
    is_gap_over: bool,
}

/// Sidecars that run on after the apps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RunOn {
    #[default]
    AppsRun,
    Since(Timestamp),
    /// The apps and the sidecars have ended.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Apps {
    Running,
    /// It is not known whether they restart.
    Unknown,
    Ended(Timestamp),
}

impl PodCost {
    /// Applies the state of the pod; returns the costs that are final.
    pub(crate) fn review(&mut self, view: &PodView, runs: &Runs) -> NamespaceCost {
        let (ran_on, gap) = self.advance(view, runs);
        self.cost(view, ran_on, gap)
    }

    /// Applies the last state of a pod that is gone; returns all its remaining costs.
    pub(crate) fn close(&mut self, view: &PodView, runs: &Runs) -> NamespaceCost {
        // A pod with an app that restarts after any exit code ends only by a deletion, even if the kubelet did not
        // list the deletion.
        let is_deleted = view.spec.deleting || view.never_finishes();
        let last_app = completion::last_app_run(runs, &view.spec, &view.plan);
        let last_app = last_app.filter(|_last| is_deleted && is_counted(view));
        let apps = last_app.map_or_else(|| apps(view), |(_id, ended)| Apps::Ended(ended));
        let mut ran_on = self.advance_run_on(apps, view, runs);
        ran_on += self.ran_on(view.now);
        self.run_on = RunOn::Over;
        let gap = last_app.map(|(_id, ended)| self.gap(ended, view, runs));
        self.is_gap_over = true;
        self.cost(view, ran_on, gap.unwrap_or_default())
    }

    /// The costs up to now that are not final yet.
    pub(crate) fn pending(&self, view: &PodView, runs: &Runs) -> NamespaceCost {
        let mut copy = self.clone();
        let (mut ran_on, mut gap) = copy.advance(view, runs);
        ran_on += copy.ran_on(view.now);
        if view.spec.deleting && is_counted(view) {
            gap += copy.gap(view.now, view, runs);
        }
        NamespaceCost {
            running: matches!(self.run_on, RunOn::Since(_)).into(),
            ..copy.cost(view, ran_on, gap)
        }
    }

    /// Queries the kubelet when a sidecar has ended and an app runs: the pod may be in deletion.
    pub(crate) fn query(&mut self, view: &PodView, runs: &Runs, poll: &mut KubeletPoll) {
        let mut apps = view.plan.apps(&view.spec);
        let has_app = apps.any(|app| runs.is_living(&app.name));
        if view.spec.deleting || !is_counted(view) || !has_app {
            return;
        }
        let ended = self.first_sidecar_end(view, runs);
        if ended.is_some() && self.queried != ended {
            self.queried = ended;
            poll.request(view.now);
        }
    }

    /// The kubelet listed the pod, in the reply to a request of this time.
    pub(crate) fn listed(&mut self, is_deleting: bool, requested: Option<Timestamp>) {
        if !is_deleting && self.queried.is_some() && requested >= self.queried {
            self.before_deletion = self.queried;
        }
    }

    fn advance(&mut self, view: &PodView, runs: &Runs) -> (Duration, Duration) {
        let apps = apps(view);
        let ran_on = self.advance_run_on(apps, view, runs);
        let gap = match apps {
            Apps::Ended(at) if view.spec.deleting => self.gap(at, view, runs),
            _ => Duration::ZERO,
        };
        (ran_on, gap)
    }

    fn advance_run_on(&mut self, apps: Apps, view: &PodView, runs: &Runs) -> Duration {
        let is_left = view.living_sidecars(runs).next().is_some();
        if let (RunOn::AppsRun, Apps::Ended(at)) = (self.run_on, apps) {
            self.run_on = RunOn::Since(at);
        }
        match (self.run_on, apps) {
            (_, Apps::Unknown) => Duration::ZERO,
            (_, Apps::Running) => {
                let ran_on = self.ran_on(view.now);
                self.run_on = RunOn::AppsRun;
                ran_on
            }
            (RunOn::Since(_), Apps::Ended(_)) if is_left => Duration::ZERO,
            (RunOn::Since(from), Apps::Ended(_)) => {
                let ran_on = self.ran_on(last_sidecar_end(view, runs).unwrap_or(from));
                self.run_on = RunOn::Over;
                ran_on
            }
            // A sidecar restarted.
            (RunOn::Over, Apps::Ended(_)) if is_left => {
                self.run_on = RunOn::Since(view.now);
                Duration::ZERO
            }
            (RunOn::Over | RunOn::AppsRun, Apps::Ended(_)) => Duration::ZERO,
        }
    }

    fn ran_on(&self, until: Timestamp) -> Duration {
        match self.run_on {
            RunOn::Since(from) => until.since(from),
            RunOn::AppsRun | RunOn::Over => Duration::ZERO,
        }
    }

    /// The gap of a pod in deletion; it is counted once.
    fn gap(&mut self, until: Timestamp, view: &PodView, runs: &Runs) -> Duration {
        if self.is_gap_over {
            return Duration::ZERO;
        }
        self.is_gap_over = true;
        self.first_sidecar_end(view, runs)
            .map_or(Duration::ZERO, |ended| until.since(ended))
    }

    /// The end of the first sidecar that may have ended because of a deletion.
    fn first_sidecar_end(&self, view: &PodView, runs: &Runs) -> Option<Timestamp> {
        sidecar_ends(view, runs)
            .filter(|ended| Some(*ended) > self.before_deletion)
            .min()
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a request of more than 9 PB is rounded"
    )]
    fn cost(&mut self, view: &PodView, ran_on: Duration, gap: Duration) -> NamespaceCost {
        const GIB: f64 = (1_u64 << 30) as f64;
        let is_first = !ran_on.is_zero() && !self.has_run_on;
        self.has_run_on |= is_first;
        let pod = view.spec.requests;
        let sidecars = view.plan.sidecars.iter();
        let sidecars = sidecars
            .filter_map(|sidecar| view.spec.container(&sidecar.name))
            .map(|sidecar| sidecar.requests)
            .fold(Requests::default(), std::ops::Add::add);
        let hours = ran_on.as_secs_f64() / 3600.0;
        NamespaceCost {
            // 1 where the sidecars of the pod ran on for the first time.
            pods: is_first.into(),
            pod_hours: hours,
            cpu_hours: hours * pod.cpu_millis as f64 / 1000.0,
            memory_gib_hours: hours * pod.memory_bytes as f64 / GIB,
            sidecar_cpu_hours: hours * sidecars.cpu_millis as f64 / 1000.0,
            sidecar_memory_gib_hours: hours * sidecars.memory_bytes as f64 / GIB,
            sigterm_gap_seconds: gap.as_secs_f64(),
            ..NamespaceCost::default()
        }
    }
}

fn is_counted(view: &PodView) -> bool {
    let is_ours = view.plan.not_ours.is_none() || view.never_finishes();
    view.modes.quit != Mode::Off && is_ours && !view.plan.sidecars.is_empty()
}

fn apps(view: &PodView) -> Apps {
    match (&view.progress, view.last_app_end) {
        _ if !is_counted(view) => Apps::Running,
        (_, Some(at)) => Apps::Ended(at),
        // usher did not observe the end.
        (Progress::Finished { at: None }, None) => Apps::Ended(view.now),
        (Progress::AskKubelet(_), None) => Apps::Unknown,
        _ => Apps::Running,
    }
}

/// The ends of sidecars that ran and run no longer.
fn sidecar_ends(view: &PodView, runs: &Runs) -> impl Iterator<Item = Timestamp> {
    let newest = view.plan.sidecars.iter();
    let newest = newest.filter_map(|sidecar| runs.newest(&sidecar.name));
    newest
        .filter(|(_id, run)| run.executed && !run.not_started)
        .filter_map(|(_id, run)| run.ended_at())
}

fn last_sidecar_end(view: &PodView, runs: &Runs) -> Option<Timestamp> {
    sidecar_ends(view, runs).max()
}
