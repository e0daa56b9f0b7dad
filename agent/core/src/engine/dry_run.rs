//! What would be done with a pod, for people who ask: the same judgements as everywhere, without doing anything.

mod hold;

use std::time::Duration;

use super::Engine;
use crate::{
    admin::{Acts, Allowed, Forecast, LeftOut, Quit, Rung, Sidecar},
    base::{id::PodUid, time::Timestamp},
    decision::{Kind, SkipReason, WaitReason},
    plan::{self, Plan},
    pod::{
        completion::{self, Progress},
        spec::Pod,
        state::Tracked,
    },
    quit::{
        Finished,
        ladder::{self, Permission},
    },
    recipe::{
        Choice, Purpose, Subject,
        step::{Signal, Step},
    },
    settings::{mode::Mode, overrides::NamespaceValues},
};

impl Engine {
    /// What would be done with a pod, in this mode or the node's; None where the kubelet has not listed it.
    pub fn forecast(&self, now: Timestamp, uid: &PodUid, mode: Option<Mode>) -> Option<Forecast> {
        let tracked = self.pods.get(uid)?;
        let spec = tracked.spec.as_deref()?;
        let mut unknown = Vec::new();
        let values = self.namespaces.get(&spec.namespace).cloned();
        if values.is_none() {
            unknown.push("what its Namespace says".to_owned());
        }
        let values = values.unwrap_or_else(NamespaceValues::default);
        let plan = Plan::of(spec, &self.config, &values, &tracked.asked);
        let ignored = plan.bad.iter().cloned();
        let ignored = ignored.map(|bad| Kind::InvalidAnnotation(bad).reason());
        let mut forecast = Forecast {
            uid: uid.to_string(),
            pod: spec.display_name(),
            what_if: mode.map(|mode| mode.to_string()),
            unknown,
            ignored: ignored.collect(),
            quit: self.quit_forecast(now, tracked, spec, &plan, mode.unwrap_or(self.modes.quit)),
            hold: self.hold_forecast(now, tracked, spec, &plan, mode),
        };
        if self.features.is_none() {
            let kernel = "what the node's kernel can hold".to_owned();
            forecast.unknown.push(kernel);
        }
        Some(forecast)
    }

    fn quit_forecast(
        &self,
        now: Timestamp,
        tracked: &Tracked,
        spec: &Pod,
        plan: &Plan,
        mode: Mode,
    ) -> Quit {
        let progress = completion::progress(tracked, spec, plan);
        let at = match &progress {
            Progress::Finished { at } => Some(*at),
            _ => None,
        };
        let finished = Finished {
            spec,
            plan,
            mode,
            timings: &self.config.ladder,
            at: at.flatten(),
            now,
            force: false,
        };
        let mut sidecars: Vec<&plan::Sidecar> = plan.sidecars.iter().collect();
        sidecars.sort_by_key(|sidecar| sidecar.order);
        let sidecars = sidecars.into_iter();
        let sidecars = sidecars.map(|one| self.sidecar(tracked, finished, one, at.is_some()));
        let (acts, because) = acts(tracked, plan, finished, &progress);
        Quit {
            mode: mode.to_string(),
            acts,
            because,
            delay_ms: ms(plan.tuning.quit_delay),
            sidecars: sidecars.collect(),
        }
    }

    fn sidecar(
        &self,
        tracked: &Tracked,
        finished: Finished<'_>,
        sidecar: &plan::Sidecar,
        is_finished: bool,
    ) -> Sidecar {
        let newest = tracked.newest(&sidecar.name);
        let mut recipes = self.config.recipes.iter();
        let recipe = recipes.find(|recipe| *recipe.name == *sidecar.recipe);
        let container = finished.spec.container(&sidecar.name);
        let subject = container.map(|one| plan::subject(finished.spec, one, &tracked.asked));
        let known = recipe.zip(subject);
        let recognised = known.and_then(|(recipe, subject)| recipe.recognised_by(subject));
        let choices = known.map_or_else(Vec::new, |(recipe, subject)| recipe.choices(subject));
        let version = subject.and_then(|subject: Subject<'_>| subject.version);
        let rungs = sidecar.ladder.iter();
        let rungs = rungs.map(|rung| {
            let (allowed, why) = allowed(tracked, finished, sidecar, rung, is_finished);
            Rung {
                step: rung.step.to_string(),
                purpose: match rung.purpose {
                    Purpose::Drain => "drain".to_owned(),
                    Purpose::Quit => "quit".to_owned(),
                },
                exit_code: rung.code,
                takes_ms: ms(rung.takes),
                next_after_ms: ms(ladder::settle(rung, &self.config.ladder)),
                allowed,
                why,
                chosen: chosen(rung, &choices),
            }
        });
        let is_there = |choice: &Choice| {
            let mut ladder = sidecar.ladder.iter();
            ladder.any(|rung| rung.step == choice.step && rung.code == choice.code)
        };
        let left_out = choices.iter();
        let left_out = left_out.filter(|choice| !choice.exists && !is_there(choice));
        Sidecar {
            container: sidecar.name.clone(),
            runs: newest.is_some_and(|(_id, run)| run.lives()),
            recipe: sidecar.recipe.to_string(),
            recognised_by: recognised
                .unwrap_or_else(|| format!("annotation {}", crate::settings::annotation::SIDECARS)),
            stage: sidecar.order.as_str().to_owned(),
            version: version.map(|version| version.to_string()),
            ladder: rungs.collect(),
            left_out: left_out
                .map(|choice| LeftOut {
                    step: choice.step.to_string(),
                    exit_code: choice.code,
                    why: choice.why.clone(),
                })
                .collect(),
        }
    }
}

/// When the pod is acted upon, and what keeps usher from it.
fn acts(
    tracked: &Tracked,
    plan: &Plan,
    finished: Finished<'_>,
    progress: &Progress,
) -> (Acts, Vec<String>) {
    let Finished { spec, mode, .. } = finished;
    let mut no = Vec::new();
    if let Some(why) = &plan.not_ours {
        no.push(Kind::NotApplicable(why.clone()).reason());
    }
    match mode {
        Mode::Off => no.push("the mode is off: nothing is decided".to_owned()),
        Mode::Observe => no.push("the mode is observe: it is only recorded".to_owned()),
        Mode::Enforce => {}
    }
    let left_alone = [
        spec.deleting.then_some(SkipReason::Deleting),
        spec.terminal
            .clone()
            .map(|reason| SkipReason::Terminal { reason }),
        (!plan.tuning.quit).then_some(SkipReason::OptedOut),
    ];
    let left_alone = left_alone.into_iter().flatten();
    no.extend(left_alone.map(|reason| Kind::Skipped { reason }.reason()));
    let mut later = Vec::new();
    match progress {
        Progress::Unfinished(why) | Progress::Unseen(why) | Progress::AskKubelet(why) => {
            later.push(Kind::Waiting(why.clone()).reason());
        }
        Progress::Hidden if plan.not_ours.is_none() => {
            let runtime_class = spec.runtime_class.clone();
            no.push(Kind::RuntimeUnsupported { runtime_class }.reason());
        }
        Progress::Hidden => {}
        Progress::Finished { .. } => {
            let mut sidecars = plan.sidecars.iter();
            let lives = |name| tracked.newest(name).is_some_and(|(_id, run)| run.lives());
            if !sidecars.any(|sidecar| lives(&sidecar.name)) && plan.not_ours.is_none() {
                no.push("none of its sidecars runs".to_owned());
            }
            let delay = plan.tuning.quit_delay;
            let over = finished.at.is_none_or(|at| at + delay <= finished.now);
            if !delay.is_zero() && !over {
                later.push(Kind::Waiting(WaitReason::QuitDelay { delay }).reason());
            }
        }
    }
    let acts = match (no.is_empty(), later.is_empty()) {
        (true, true) => Acts::Now,
        (true, false) => Acts::Later,
        (false, _) => Acts::No,
    };
    no.extend(later);
    (acts, no)
}

/// Whether a step may be taken. While apps run it may depend on how they end.
fn allowed(
    tracked: &Tracked,
    finished: Finished<'_>,
    sidecar: &plan::Sidecar,
    rung: &crate::recipe::Rung,
    is_finished: bool,
) -> (Allowed, Option<String>) {
    let permission = |failed| finished.permission(sidecar, rung, failed);
    let known = is_finished.then(|| completion::has_failed(tracked, finished.spec));
    let (good, bad) = match known.flatten() {
        Some(failed) => (permission(Some(failed)), permission(Some(failed))),
        None => (permission(Some(false)), permission(Some(true))),
    };
    let reason = |permission: &Permission| match permission {
        Permission::Denied(reason) => {
            let reason = reason.clone();
            Some(Kind::GaveUp { reason }.reason())
        }
        Permission::Granted | Permission::Unknown => None,
    };
    match (&good, &bad) {
        (Permission::Denied(_), Permission::Denied(_)) => (Allowed::No, reason(&good)),
        (Permission::Denied(_), _) => {
            let why = reason(&good).unwrap_or_default();
            let why = format!("only where an app ends with another code than 0: {why}");
            (Allowed::Depends, Some(why))
        }
        _ => (Allowed::Yes, None),
    }
}

/// By which condition a step is there.
fn chosen(rung: &crate::recipe::Rung, choices: &[Choice]) -> String {
    let mut choices = choices.iter().filter(|choice| choice.exists);
    let same = choices.find(|choice| choice.step == rung.step && choice.code == rung.code);
    match (same, rung.purpose) {
        (Some(choice), Purpose::Quit) => choice.why.clone(),
        (_, Purpose::Drain) => format!("annotation {}", crate::settings::annotation::DRAIN),
        // Neither a recipe nor an annotation can name it.
        (None, Purpose::Quit) if rung.step == Step::signal(Signal::Kill) => {
            "configuration: ladder.kill".to_owned()
        }
        (None, Purpose::Quit) => format!("annotation {}", crate::settings::annotation::SIDECARS),
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
