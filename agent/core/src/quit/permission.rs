//! Which steps do a pod no harm.

use super::Finished;
use crate::{
    decision::GaveUp,
    plan::Sidecar,
    pod::restart_policy::{self, Verdict},
    quit::ladder::Permission,
    recipe::{
        Purpose, Rung,
        step::{Signal, Step},
    },
};

impl Finished<'_> {
    /// Whether a step does the pod no harm. Ending a sidecar so that it is
    /// started again is in vain, and ending it so that a pod that succeeded
    /// becomes a failed one has the Job do its work again.
    pub(crate) fn permission(
        self,
        sidecar: &Sidecar,
        rung: &Rung,
        failed: Option<bool>,
    ) -> Permission {
        if self.force {
            return Permission::Granted;
        }
        if rung.purpose == Purpose::Drain {
            return self.permission_to_drain(sidecar, failed);
        }
        let (step, code) = (rung.step.clone(), rung.code);
        let advice = rung.advice.clone();
        if restart_policy::judge(sidecar.policy, &sidecar.rules, Some(code)) == Verdict::ComesBack {
            return Permission::Denied(GaveUp::WouldRestart { step, code, advice });
        }
        let killing = step == Step::signal(Signal::Kill);
        if code == 0 || killing || self.plan.tuning.spoil {
            return Permission::Granted;
        }
        match failed {
            Some(true) => Permission::Granted,
            Some(false) => Permission::Denied(GaveUp::WouldSpoil { step, code, advice }),
            None => Permission::Unknown,
        }
    }

    /// A sidecar that will not be asked to quit is not drained either.
    fn permission_to_drain(self, sidecar: &Sidecar, failed: Option<bool>) -> Permission {
        let steps = sidecar.ladder.iter();
        let steps = steps.filter(|rung| rung.purpose == Purpose::Quit);
        let mut all = steps.map(|rung| self.permission(sidecar, rung, failed));
        let mut denied = None;
        let open = all.find(|permission| match permission {
            Permission::Denied(_) => {
                denied.get_or_insert(permission.clone());
                false
            }
            Permission::Granted | Permission::Unknown => true,
        });
        open.map_or(denied.unwrap_or(Permission::Granted), |_open| {
            Permission::Granted
        })
    }
}
