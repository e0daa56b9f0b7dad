//! Which connections and starts usher would hold.

use std::collections::BTreeSet;

use super::{Engine, ms};
use crate::{
    admin::{Acts, HeldPort, Hold, Start},
    decision::{Kind, omitted_ports_text},
    hold::{NotHeld, PROBE_GRACE, Probe, conditions::Conditions, state::HoldPhase},
    pod::{state::Tracked, view::PodView},
    recipe::Identity,
    settings::mode::Mode,
    start,
};

impl Engine {
    pub(super) fn hold_forecast(&self, view: &PodView, what_if: bool) -> Option<Hold> {
        let tracked = self.pods.get(&view.uid)?;
        let plan = &view.plan;
        let held_ports = plan.held_ports().into_iter().map(|held_port| HeldPort {
            port: held_port.port,
            sidecar: held_port.sidecar.clone(),
            dns: held_port.dns,
            released_when: match &held_port.probe {
                Probe::Listens { port } => format!("a process listens on :{port}"),
                Probe::Answers { port, path } => {
                    let answers = format!("GET :{port}{path} is answered with 2xx");
                    let listens = held_port.captured.map(|port| {
                        format!(", or {PROBE_GRACE:?} after a process listens on :{port}")
                    });
                    answers + &listens.unwrap_or_default()
                }
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
            Start {
                container: start.container.clone(),
                limit_ms: limit.as_ref().ok().map(|limit| ms(*limit)),
                why: match limit {
                    Ok(_limit) => start.probe.map(|probe| probe.to_string()),
                    Err(why) => Some(why.to_string()),
                },
            }
        });
        let ids = |read: fn(&Identity) -> &Vec<u32>| -> Vec<u32> {
            let sidecars = plan.sidecars.iter();
            let ids: BTreeSet<u32> = sidecars
                .flat_map(|sidecar| read(&sidecar.identity))
                .copied()
                .collect();
            ids.into_iter().collect()
        };
        let (acts, mut because) = self.hold_acts(view, tracked, what_if);
        if plan.not_held.is_none() {
            because.extend(omitted_ports_text(plan.omitted_ports));
        }
        Some(Hold {
            mode: view.modes.hold.to_string(),
            acts,
            because,
            held_ports: held_ports.collect(),
            deadline_ms: ms(plan.tuning.hold_deadline),
            on_deadline: plan.tuning.on_deadline.into_str().to_owned(),
            again: plan.tuning.hold_again,
            exempt_uids: ids(|identity| &identity.users),
            exempt_gids: ids(|identity| &identity.groups),
            starts: starts.collect(),
        })
    }

    fn hold_acts(&self, view: &PodView, tracked: &Tracked, what_if: bool) -> (Acts, Vec<String>) {
        let by_operator = tracked.hold.by_operator && !what_if;
        let mut no = Vec::new();
        let mut not = |why: NotHeld| no.push(Kind::NotHeld(why).reason());
        let not_held = view.plan.not_held.clone();
        if let Some(why) = not_held.filter(|why| !(by_operator && *why == NotHeld::OptedOut)) {
            not(why);
        }
        let lacks = self
            .features
            .as_ref()
            .and_then(|features| features.hold.clone().err());
        if let Some(lacks) = lacks {
            not(NotHeld::Kernel { lacks });
        }
        if view.is_ending() {
            not(NotHeld::Ending);
        }
        match view.modes.hold {
            _ if by_operator => {}
            Mode::Off => no.push("the mode is off: nothing is decided".to_owned()),
            Mode::Observe => {
                no.push("the mode is observe: refused connections are only counted".to_owned());
            }
            Mode::Enforce => {}
        }
        let sandbox = tracked.hold.sandbox.as_ref();
        let runs = &tracked.runs;
        let any_app_started = Conditions { view, runs }.any_app_started(0);
        let (acts, why) = match sandbox.map(|sandbox| &sandbox.phase) {
            Some(HoldPhase::Holding(held)) if !held.count_only() => {
                let left = held.deadline.since(view.now).as_secs();
                (
                    Acts::Now,
                    format!("its connections wait, for at most {left} s yet"),
                )
            }
            // In another mode it would be held by now, or have been.
            Some(HoldPhase::Holding(_)) if what_if => {
                (Acts::Now, "its sidecars are not ready yet".to_owned())
            }
            Some(HoldPhase::Arming { .. } | HoldPhase::Releasing { .. }) => {
                (Acts::Now, "its ports are being held or released".to_owned())
            }
            _ if any_app_started => {
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
