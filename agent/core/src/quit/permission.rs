//! Which steps are permitted, because they do not harm the pod.

use crate::{
    decision::GaveUp,
    plan::Sidecar,
    pod::restart_policy::{self, Verdict},
    recipe::{
        ExitCode, LadderStep, Purpose,
        step::{Signal, Step},
    },
};

/// Whether a step may be taken, given what it does to the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permission {
    Granted,
    /// It depends on an exit code that is not known yet.
    Unknown,
    Denied(GaveUp),
}

/// What the permission for a step of one sidecar depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepPolicy<'plan> {
    pub(crate) sidecar: &'plan Sidecar,
    /// Whether an app container failed; None while an exit code is unknown.
    pub(crate) app_failed: Option<bool>,
    /// An operator forces the request: every step is permitted.
    pub(crate) force: bool,
    /// The pod's configuration accepts a step that makes the pod fail.
    pub(crate) may_fail_pod: bool,
}

impl StepPolicy<'_> {
    /// Whether a step does the pod no harm. The kubelet restarts a sidecar that ends against its restart policy, and a
    /// sidecar that ends with an error makes a pod that succeeded a failed one, so that its Job repeats the work.
    pub(crate) fn permission(self, step: &LadderStep) -> Permission {
        if self.force {
            return Permission::Granted;
        }
        if step.purpose == Purpose::Drain {
            return self.permission_to_drain();
        }
        let Self { sidecar, .. } = self;
        let (code, advice) = (step.code, step.advice.clone());
        let step = step.step.clone();
        let verdict = restart_policy::judge(sidecar.policy, &sidecar.rules, code.known());
        if verdict == Verdict::ComesBack {
            return Permission::Denied(GaveUp::WouldRestart { step, code, advice });
        }
        let kills = step == Step::signal(Signal::Kill);
        if code == ExitCode::ZERO || kills || self.may_fail_pod {
            return Permission::Granted;
        }
        // The unknown code decides whether the sidecar restarts, and a restart counts as a failure of a Job.
        if verdict == Verdict::CodeDecides {
            return Permission::Denied(GaveUp::WouldRestart { step, code, advice });
        }
        match self.app_failed {
            Some(true) => Permission::Granted,
            Some(false) => Permission::Denied(GaveUp::WouldFailPod { step, code, advice }),
            None => Permission::Unknown,
        }
    }

    /// A sidecar without a permitted step to terminate it is not drained either.
    fn permission_to_drain(self) -> Permission {
        let mut first_denied = None;
        for step in &self.sidecar.ladder {
            if step.purpose != Purpose::Quit {
                continue;
            }
            match self.permission(step) {
                Permission::Granted | Permission::Unknown => return Permission::Granted,
                denied @ Permission::Denied(_) => {
                    first_denied.get_or_insert(denied);
                }
            }
        }
        first_denied.unwrap_or(Permission::Granted)
    }
}
