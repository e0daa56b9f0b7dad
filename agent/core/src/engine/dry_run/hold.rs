//! Which connections and starts would wait.

use super::{Engine, ms};
use crate::{
    admin::{Acts, Door, Hold, Start},
    base::time::Timestamp,
    decision::Kind,
    hold::{NotHeld, Probe, conditions::Known, state::State},
    plan::Plan,
    pod::{spec::Pod, state::Tracked},
    settings::mode::Mode,
    start::{self, Probed},
};

impl Engine {
    pub(super) fn hold_forecast(
        &self,
        now: Timestamp,
        tracked: &Tracked,
        spec: &Pod,
        plan: &Plan,
        mode: Option<Mode>,
    ) -> Hold {
        let by_hand = tracked.hold.by_hand && mode.is_none();
        let what_if = mode.is_some();
        let mode = mode.unwrap_or(self.modes.hold);
        let doors = plan.doors().into_iter().map(|door| Door {
            port: door.port,
            sidecar: door.sidecar.clone(),
            dns: door.dns,
            opens: match &door.probe {
                Probe::Listens { port } => format!("somebody listens at :{port}"),
                Probe::Answers { port, path } => format!("GET :{port}{path} is answered with 2xx"),
            },
        });
        let lacks = self
            .features
            .as_ref()
            .and_then(|features| features.start.clone().err());
        let starts = plan.starts.iter().map(|start| {
            let limit = match (&start.limit, &lacks) {
                (_, Some(lacks)) => Err(start::NotHeld::Node {
                    lacks: lacks.clone(),
                }),
                (limit, None) => limit.clone(),
            };
            let probe = |Probed { kind, kills_after }: Probed| {
                format!(
                    "its {} lets the kubelet end it {kills_after:?} after its start",
                    kind.as_str()
                )
            };
            Start {
                container: start.container.clone(),
                limit_ms: limit.as_ref().ok().map(|limit| ms(*limit)),
                why: match limit {
                    Ok(_limit) => start.probe.map(probe),
                    Err(why) => Some(why.to_string()),
                },
            }
        });
        let mut uids: Vec<u32> = plan
            .sidecars
            .iter()
            .flat_map(|sidecar| sidecar.identity.users.iter().copied())
            .collect();
        uids.sort_unstable();
        uids.dedup();
        let (acts, because) = self.hold_acts(now, tracked, spec, plan, mode, by_hand, what_if);
        Hold {
            mode: mode.to_string(),
            acts,
            because,
            doors: doors.collect(),
            deadline_ms: ms(plan.tuning.hold_deadline),
            on_deadline: plan.tuning.on_deadline.as_str().to_owned(),
            again: plan.tuning.hold_again,
            passing_uids: uids,
            starts: starts.collect(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all that a hold depends on")]
    fn hold_acts(
        &self,
        now: Timestamp,
        tracked: &Tracked,
        spec: &Pod,
        plan: &Plan,
        mode: Mode,
        by_hand: bool,
        what_if: bool,
    ) -> (Acts, Vec<String>) {
        let known = Known { spec, plan };
        let mut no = Vec::new();
        let mut not = |why: NotHeld| no.push(Kind::NotHeld(why).reason());
        let set_aside = |why: &NotHeld| by_hand && *why == NotHeld::OptedOut;
        if let Some(why) = plan.not_held.clone().filter(|why| !set_aside(why)) {
            not(why);
        }
        let lacks = self
            .features
            .as_ref()
            .and_then(|features| features.hold.clone().err());
        if let Some(lacks) = lacks {
            not(NotHeld::Kernel { lacks });
        }
        if known.is_ending(tracked) {
            not(NotHeld::Ending);
        }
        match mode {
            _ if by_hand => {}
            Mode::Off => no.push("the mode is off: nothing is decided".to_owned()),
            Mode::Observe => {
                no.push("the mode is observe: refused connections are only counted".to_owned());
            }
            Mode::Enforce => {}
        }
        let sandbox = tracked.hold.sandbox.as_ref();
        let state = sandbox.map(|sandbox| &sandbox.state);
        let begun = known.an_app_has_begun(0, tracked);
        let (acts, why) = match state {
            Some(State::Shut(shut)) if !shut.count_only => {
                let left = shut.deadline.since(now).as_secs();
                (
                    Acts::Now,
                    format!("its connections wait, for at most {left} s yet"),
                )
            }
            // In another mode it would be held by now, or have been.
            Some(State::Shut(_)) if what_if => {
                (Acts::Now, "its sidecars are not ready yet".to_owned())
            }
            Some(State::Arming { .. } | State::Opening { .. }) => {
                (Acts::Now, "its doors are being shut or opened".to_owned())
            }
            _ if begun => {
                let why = "its apps have begun: what is held is the time between their start and their sidecars' readiness";
                (Acts::No, why.to_owned())
            }
            _ => (Acts::Later, "its apps have not begun".to_owned()),
        };
        let acts = if no.is_empty() { acts } else { Acts::No };
        no.push(why);
        (acts, no)
    }
}
