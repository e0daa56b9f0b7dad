//! A round's pods and faults, decided only by a seed.

use std::time::Duration;

use usher_tests::synthetic::RestartPolicy;

use crate::dice::Dice;
use crate::fault::{Fault, Lane, Planned};
use crate::plan::{App, Hold, KILLED, PodPlan, Variation};
use crate::sidecar::Sidecar;

/// The time in which pods are created.
pub(crate) const LENGTH: Duration = Duration::from_secs(75);
/// The time in which faults occur. The rest of a round has none.
const STORM: Duration = Duration::from_secs(50);
/// Mean time between two pods.
const PACE_MS: u64 = 500;

#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) number: u64,
    pub(crate) plans: Vec<PodPlan>,
    /// The faults of the two lanes.
    pub(crate) faults: Vec<(Lane, Vec<Planned>)>,
}

/// Round `number` of a seed.
pub(crate) fn round(seed: u64, number: u64) -> Round {
    let mut dice = Dice::new(seed, number * 4);
    let mut plans = Vec::new();
    let mut at = Duration::ZERO;
    let mut crowd = 0;
    while at < LENGTH {
        plans.push(plan(&mut dice, number, plans.len(), at));
        // Sometimes many start at once.
        if dice.one_in(40) {
            crowd = dice.between(5, 15);
        }
        crowd = crowd.saturating_sub(1);
        let gap = if crowd > 0 || dice.one_in(12) {
            0
        } else {
            dice.between(1, PACE_MS * 2)
        };
        at += Duration::from_millis(gap);
    }
    // Every third round tests for leaks, with one agent for the whole round.
    let calm = number % 3 == 2;
    let mut faults = Vec::new();
    for (lane, matter) in [(Lane::Agent, 1), (Lane::Servers, 2)] {
        let mut dice = Dice::new(seed, number * 4 + matter);
        if !calm || lane == Lane::Servers {
            faults.push((lane, lane_faults(&mut dice, lane)));
        }
    }
    Round {
        number,
        plans,
        faults,
    }
}

/// A pod that uses every feature once.
pub(crate) fn first() -> PodPlan {
    let hold = Hold {
        start: true,
        deadline: Duration::from_secs(10),
        ready: Some(Duration::from_millis(500)),
    };
    let app = App {
        lives: vec![(Duration::ZERO, 0)],
        policy: None,
        again_after: None,
    };
    PodPlan {
        name: "first".to_owned(),
        at: Duration::ZERO,
        policy: RestartPolicy::Never,
        apps: vec![app],
        sidecars: vec![Sidecar::Mesh(Some(500))],
        sidecar_delay: None,
        variation: Variation::None,
        hold: Some(hold),
    }
}

fn lane_faults(dice: &mut Dice, lane: Lane) -> Vec<Planned> {
    let mut faults = Vec::new();
    let mut at = Duration::ZERO;
    loop {
        let after = Duration::from_millis(dice.between(1_500, 8_000));
        let lasts = Duration::from_millis(dice.between(100, 5_000));
        at += after + lasts;
        if at > STORM {
            return faults;
        }
        faults.push(Planned {
            after,
            lasts,
            fault: dice.pick(Fault::of(lane)),
        });
    }
}

fn plan(dice: &mut Dice, round: u64, number: usize, at: Duration) -> PodPlan {
    let hold = dice.one_in(4).then(|| hold(dice));
    let policy = dice.pick(&[
        (6, RestartPolicy::Never),
        (4, RestartPolicy::OnFailure),
        (1, RestartPolicy::Always),
    ]);
    let variation = variation(dice, hold.is_some());
    let sidecars = sidecars(dice, hold, policy, variation);
    // These pods test the sidecar's exit code or a hold, not a refused connection.
    let plain = sidecars.contains(&Sidecar::CloudSqlFailing) || hold.is_some();
    let count = if dice.one_in(4) { 2 } else { 1 };
    let apps = (0..count).map(|_| app(dice, policy, plain)).collect();
    let late = hold.is_none() && variation == Variation::None && dice.one_in(8);
    PodPlan {
        name: format!("pod-{round}-{number}"),
        at,
        policy,
        apps,
        sidecars,
        sidecar_delay: late.then(|| Duration::from_millis(dice.between(20, 1_500))),
        variation,
        hold,
    }
}

fn hold(dice: &mut Dice) -> Hold {
    let ready = (!dice.one_in(8)).then(|| Duration::from_millis(dice.between(0, 2_500)));
    Hold {
        start: dice.one_in(2),
        deadline: Duration::from_secs(dice.between(6, 12)),
        ready,
    }
}

fn variation(dice: &mut Dice, held: bool) -> Variation {
    let removed = Variation::Removed(Duration::from_millis(dice.between(0, 2_000)));
    let both = [
        (12, Variation::None),
        (1, Variation::OptedOut),
        (1, Variation::BadAnnotations),
        (1, Variation::Init),
        (1, Variation::Lingers),
        (2, removed),
    ];
    let others = [
        (1, Variation::Excluded),
        (1, Variation::Delayed),
        (1, Variation::SharedPids),
        (1, Variation::HostNetwork),
        (1, Variation::Deleted),
    ];
    let all = [&both[..], &others[..]].concat();
    dice.pick(if held { &both } else { &all })
}

fn sidecars(
    dice: &mut Dice,
    hold: Option<Hold>,
    policy: RestartPolicy,
    variation: Variation,
) -> Vec<Sidecar> {
    if let Some(hold) = hold {
        let ready = hold.ready.map(|ready| u64::try_from(ready.as_millis()));
        return vec![Sidecar::Mesh(ready.and_then(Result::ok))];
    }
    // The listeners of the sidecars would be on the node's loopback.
    if variation == Variation::HostNetwork {
        return vec![Sidecar::IstioPortless];
    }
    let mesh = dice.pick(&[
        (6, Sidecar::Istio),
        (3, Sidecar::IstioOld),
        (2, Sidecar::IstioAncient),
        (2, Sidecar::IstioMute),
        (1, Sidecar::IstioPortless),
        (1, Sidecar::IstioHanging),
        (3, Sidecar::Linkerd),
        (1, Sidecar::LinkerdClosed),
    ]);
    let other = dice.pick(&[
        (3, Sidecar::CloudSql),
        (2, Sidecar::Dapr),
        (1, Sidecar::DaprToken),
    ]);
    match dice.below(20) {
        0..=9 => vec![mesh],
        10..=12 => vec![other],
        13..=16 => vec![other, mesh],
        17 => vec![Sidecar::CloudSqlFailing],
        18 if policy == RestartPolicy::OnFailure => vec![Sidecar::IstioReturning],
        _ => vec![if dice.one_in(3) {
            Sidecar::IstioDeaf
        } else {
            mesh
        }],
    }
}

fn app(dice: &mut Dice, policy: RestartPolicy, plain: bool) -> App {
    let mut lives = Vec::new();
    let count = if plain { 1 } else { dice.between(1, 3) };
    for number in 0..count {
        // Usually the last code is 0, so that most pods finish.
        let last = number + 1 == count;
        let code = match (last, dice.below(8)) {
            (true, 0) | (false, 0..=4) => 1,
            (true, 1) | (false, 5) if !plain => KILLED,
            (false, 6) => 42,
            _ => 0,
        };
        let millis = if dice.one_in(5) {
            dice.below(60)
        } else {
            dice.between(200, 3_000)
        };
        lives.push((Duration::from_millis(millis), code));
    }
    let own = !plain && policy != RestartPolicy::Always && dice.one_in(6);
    let policies = [
        (2, RestartPolicy::Never),
        (2, RestartPolicy::OnFailure),
        (1, RestartPolicy::Always),
    ];
    App {
        lives,
        policy: own.then(|| dice.pick(&policies)),
        again_after: (!plain && dice.one_in(8)).then_some(42),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let text = |seed, number| format!("{:?}", round(seed, number));
        assert_eq!(text(3, 5), text(3, 5));
        assert_ne!(text(3, 5), text(4, 5));
        assert_ne!(text(3, 5), text(3, 6));
    }

    #[test]
    fn most_pods_finish_and_every_kind_occurs() {
        let rounds: Vec<Round> = (0..40).map(|number| round(1, number)).collect();
        let plans: Vec<&PodPlan> = rounds.iter().flat_map(|round| &round.plans).collect();
        let finishing = plans.iter().filter(|plan| plan.finishes()).count();
        assert!(
            finishing * 2 > plans.len(),
            "{finishing} of {}",
            plans.len()
        );
        assert!(finishing < plans.len());
        for lane in [Lane::Agent, Lane::Servers] {
            for (_, fault) in Fault::of(lane) {
                let mut lanes = rounds.iter().flat_map(|round| &round.faults);
                let planned = lanes.any(|(_, all)| all.iter().any(|one| one.fault == *fault));
                assert!(planned, "{fault:?} never comes");
            }
        }
        for sidecar in [
            Sidecar::IstioDeaf,
            Sidecar::IstioReturning,
            Sidecar::CloudSqlFailing,
        ] {
            assert!(plans.iter().any(|plan| plan.sidecars.contains(&sidecar)));
        }
    }
}
