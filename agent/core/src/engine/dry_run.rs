//! Dry runs: what usher would do with a pod, in this mode or in another one.

mod hold;
mod linger;

use std::{sync::Arc, time::Duration};

use super::Engine;
use crate::{
    admin::{Acts, Allowed, Forecast, LadderStep, LeftOut, Quit, Sidecar},
    base::{id::PodUid, time::Timestamp},
    decision::{GaveUp, Kind, WaitReason},
    plan::{self, Plan},
    pod::{
        completion::{self, Progress},
        state::runs::Runs,
        view::PodView,
    },
    quit::{
        deletion, ladder,
        permission::{Permission, StepPolicy},
        review::{Termination, skip_reasons},
    },
    recipe::{
        Choice, Purpose, Subject,
        step::{Signal, Step},
    },
    settings::{mode::Mode, overrides::NamespaceValues},
};

impl Engine {
    /// What usher would do with a pod, in this mode or the node's; None where the kubelet has not listed the pod.
    pub fn forecast(&self, now: Timestamp, uid: &PodUid, mode: Option<Mode>) -> Option<Forecast> {
        let mut copy = self.copy_for(uid);
        let tracked = copy.pods.get_mut(uid)?;
        let spec = tracked.spec.clone()?;
        let mut unknown = Vec::new();
        let values = copy.namespaces.get(&spec.namespace).cloned();
        if values.is_none() {
            unknown.push("what its Namespace says".to_owned());
        }
        if copy.features.is_none() {
            unknown.push("what the node's kernel can hold".to_owned());
        }
        let values = values.unwrap_or_else(NamespaceValues::default);
        let plan = Plan::of(&spec, &copy.config, &values, &tracked.versions);
        tracked.plan = Some(Arc::new(plan));
        let mut modes = copy.modes;
        if let Some(mode) = mode {
            modes.quit = mode;
            modes.hold = mode;
            modes.linger = mode;
        }
        let view = tracked.view(now, modes, &copy.config)?;
        let ignored = view.plan.bad.iter().cloned();
        Some(Forecast {
            uid: uid.to_string(),
            pod: spec.display_name(),
            what_if: mode.map(|mode| mode.to_string()),
            unknown,
            ignored: ignored
                .map(|bad| Kind::InvalidAnnotation(bad).reason())
                .collect(),
            quit: copy.quit_forecast(&view, &copy.pods.get(uid)?.runs),
            hold: copy.hold_forecast(&view, mode.is_some())?,
            linger: linger::forecast(&view),
        })
    }

    fn quit_forecast(&self, view: &PodView, runs: &Runs) -> Quit {
        let termination = Termination {
            view,
            runs,
            force: false,
        };
        let mut sidecars: Vec<&plan::Sidecar> = view.plan.sidecars.iter().collect();
        sidecars.sort_by_key(|sidecar| sidecar.stage);
        let (acts, because) = quit_acts(view, runs);
        Quit {
            mode: view.modes.quit.to_string(),
            acts,
            because,
            delay_ms: ms(view.plan.tuning.quit_delay),
            sidecars: sidecars
                .into_iter()
                .map(|sidecar| self.sidecar_forecast(termination, sidecar))
                .collect(),
            self_ending: view
                .plan
                .self_ending
                .iter()
                .map(|container| container.name.clone())
                .collect(),
        }
    }

    fn sidecar_forecast(&self, termination: Termination<'_>, sidecar: &plan::Sidecar) -> Sidecar {
        let Termination { view, runs, .. } = termination;
        let mut recipes = self.config.recipes.iter();
        let recipe = recipes.find(|recipe| *recipe.name == *sidecar.recipe);
        let versions = self.pods.get(&view.uid).map(|tracked| &tracked.versions);
        let subject = view
            .spec
            .container(&sidecar.name)
            .zip(versions)
            .map(|(container, versions)| plan::subject(&view.spec, container, versions));
        let known = recipe.zip(subject);
        let recognized = known.and_then(|(recipe, subject)| recipe.recognized_by(subject));
        let choices = known.map_or_else(Vec::new, |(recipe, subject)| recipe.choices(subject));
        let version = subject.and_then(|subject: Subject<'_>| subject.version);
        let app_failed = view
            .is_finished()
            .then(|| completion::has_failed(runs, &view.spec))
            .flatten();
        let ladder = sidecar.ladder.iter().map(|step| {
            let (allowed, why) = allowed(termination.policy(sidecar, app_failed), step);
            LadderStep {
                step: step.step.to_string(),
                purpose: match step.purpose {
                    Purpose::Drain => "drain".to_owned(),
                    Purpose::Quit => "quit".to_owned(),
                },
                exit_code: step.code.known(),
                takes_ms: ms(step.takes),
                next_after_ms: ms(ladder::settle(step, &self.config.ladder)),
                allowed,
                why,
                chosen: chosen(step, &choices),
            }
        });
        let is_included = |choice: &Choice| {
            let mut ladder = sidecar.ladder.iter();
            ladder.any(|step| step.step == choice.step && step.code == choice.code)
        };
        // The same signal to the first process is listed already.
        let is_refined = |choice: &Choice| {
            matches!(
                choice.step,
                Step::Signal {
                    process: Some(_),
                    ..
                }
            )
        };
        let on_deletion = || match deletion::ladder(view, sidecar) {
            Ok(steps) => {
                let steps: Vec<String> = steps.iter().map(|step| step.step.to_string()).collect();
                steps.join(", then ")
            }
            Err(reason) => Kind::LeftToKubelet(reason).reason(),
        };
        Sidecar {
            container: sidecar.name.clone(),
            runs: runs.is_living(&sidecar.name),
            recipe: sidecar.recipe.to_string(),
            recognized_by: recognized
                .unwrap_or_else(|| format!("annotation {}", crate::settings::annotation::SIDECARS)),
            stage: sidecar.stage.into_str().to_owned(),
            version: version.map(|version| version.to_string()),
            ladder: ladder.collect(),
            on_deletion: view.never_finishes().then(on_deletion),
            left_out: choices
                .iter()
                .filter(|choice| !choice.exists && !is_included(choice) && !is_refined(choice))
                .map(|choice| LeftOut {
                    step: choice.step.to_string(),
                    exit_code: choice.code.known(),
                    why: choice.why.clone(),
                })
                .collect(),
        }
    }
}

/// When usher terminates the pod's sidecars, and what keeps usher from it.
fn quit_acts(view: &PodView, runs: &Runs) -> (Acts, Vec<String>) {
    let PodView { spec, plan, .. } = view;
    let mut no = Vec::new();
    if let Some(why) = &plan.not_ours {
        no.push(Kind::NotApplicable(why.clone()).reason());
    }
    match view.modes.quit {
        Mode::Off => no.push("the mode is off: nothing is decided".to_owned()),
        Mode::Observe => no.push("the mode is observe: it is only recorded".to_owned()),
        Mode::Enforce => {}
    }
    no.extend(skip_reasons(view).map(|reason| Kind::Skipped { reason }.reason()));
    let mut later = Vec::new();
    match &view.progress {
        Progress::Unfinished(why) | Progress::Unseen(why) | Progress::AskKubelet(why) => {
            later.push(Kind::Waiting(why.clone()).reason());
        }
        Progress::Hidden if plan.not_ours.is_none() => {
            let runtime_class = spec.runtime_class.clone();
            no.push(Kind::RuntimeUnsupported { runtime_class }.reason());
        }
        Progress::Hidden => {}
        Progress::Finished { at } => {
            if plan.not_ours.is_none() && view.living_sidecars(runs).next().is_none() {
                no.push("none of its sidecars runs".to_owned());
            }
            let delay = plan.tuning.quit_delay;
            let over = at.is_none_or(|at| at + delay <= view.now);
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

/// While apps run, the answer may depend on how they end.
fn allowed(policy: StepPolicy<'_>, step: &crate::recipe::LadderStep) -> (Allowed, Option<String>) {
    let permission = |app_failed: bool| {
        let app_failed = policy.app_failed.or(Some(app_failed));
        StepPolicy {
            app_failed,
            ..policy
        }
        .permission(step)
    };
    let why = |reason: GaveUp| Kind::GaveUp { reason }.reason();
    match (permission(false), permission(true)) {
        (Permission::Denied(reason), Permission::Denied(_)) => (Allowed::No, Some(why(reason))),
        (Permission::Denied(reason), _) => {
            let why = why(reason);
            let why = format!("only where an app ends with another code than 0: {why}");
            (Allowed::Depends, Some(why))
        }
        _ => (Allowed::Yes, None),
    }
}

/// The condition that adds a step to the ladder.
fn chosen(step: &crate::recipe::LadderStep, choices: &[Choice]) -> String {
    let mut choices = choices.iter().filter(|choice| choice.exists);
    let same = choices.find(|choice| choice.step == step.step && choice.code == step.code);
    match (same, step.purpose) {
        (Some(choice), Purpose::Quit) => choice.why.clone(),
        (_, Purpose::Drain) => format!("annotation {}", crate::settings::annotation::DRAIN),
        // Neither a recipe nor an annotation can name it.
        (None, Purpose::Quit) if step.step == Step::signal(Signal::Kill) => {
            "configuration: ladder.kill".to_owned()
        }
        (None, Purpose::Quit) => format!("annotation {}", crate::settings::annotation::SIDECARS),
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
