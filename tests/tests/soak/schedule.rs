//! A round's pods and faults, decided only by a seed.

use std::time::Duration;

use usher_tests::synthetic::RestartPolicy;

use crate::dice::Dice;
use crate::fault::{Fault, Lane, Planned};
use crate::guest::Guest;
use crate::story::{App, Hold, KILLED, Story, Twist};

/// The time in which pods are created.
pub(crate) const LENGTH: Duration = Duration::from_secs(75);
/// The time in which faults occur. The rest of a round has none.
const STORM: Duration = Duration::from_secs(50);
/// Mean time between two pods.
const PACE_MS: u64 = 500;

#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) number: u64,
    pub(crate) stories: Vec<Story>,
    /// The faults of the two lanes.
    pub(crate) faults: Vec<(Lane, Vec<Planned>)>,
}

/// Round `number` of a seed.
pub(crate) fn round(seed: u64, number: u64) -> Round {
    let mut dice = Dice::new(seed, number * 4);
    let mut stories = Vec::new();
    let mut at = Duration::ZERO;
    let mut crowd = 0;
    while at < LENGTH {
        stories.push(story(&mut dice, number, stories.len(), at));
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
        stories,
        faults,
    }
}

/// A pod that uses every feature once.
pub(crate) fn first() -> Story {
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
    Story {
        name: "first".to_owned(),
        at: Duration::ZERO,
        policy: RestartPolicy::Never,
        apps: vec![app],
        guests: vec![Guest::Mesh(Some(500))],
        guests_late: None,
        twist: Twist::None,
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

fn story(dice: &mut Dice, round: u64, number: usize, at: Duration) -> Story {
    let hold = dice.one_in(4).then(|| hold(dice));
    let policy = dice.pick(&[
        (6, RestartPolicy::Never),
        (4, RestartPolicy::OnFailure),
        (1, RestartPolicy::Always),
    ]);
    let twist = twist(dice, hold.is_some());
    let guests = guests(dice, hold, policy, twist);
    // These pods test the sidecar's exit code or a hold, not a refused connection.
    let plain = guests.contains(&Guest::CloudSqlSpoiling) || hold.is_some();
    let count = if dice.one_in(4) { 2 } else { 1 };
    let apps = (0..count).map(|_| app(dice, policy, plain)).collect();
    let late = hold.is_none() && twist == Twist::None && dice.one_in(8);
    Story {
        name: format!("pod-{round}-{number}"),
        at,
        policy,
        apps,
        guests,
        guests_late: late.then(|| Duration::from_millis(dice.between(20, 1_500))),
        twist,
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

fn twist(dice: &mut Dice, held: bool) -> Twist {
    let removed = Twist::Removed(Duration::from_millis(dice.between(0, 2_000)));
    let both = [
        (12, Twist::None),
        (1, Twist::OptedOut),
        (1, Twist::BadAnnotations),
        (1, Twist::Init),
        (1, Twist::Lingers),
        (2, removed),
    ];
    let others = [
        (1, Twist::Excluded),
        (1, Twist::Delayed),
        (1, Twist::SharedPids),
        (1, Twist::HostNetwork),
        (1, Twist::Deleted),
    ];
    let all = [&both[..], &others[..]].concat();
    dice.pick(if held { &both } else { &all })
}

fn guests(dice: &mut Dice, hold: Option<Hold>, policy: RestartPolicy, twist: Twist) -> Vec<Guest> {
    if let Some(hold) = hold {
        let ready = hold.ready.map(|ready| u64::try_from(ready.as_millis()));
        return vec![Guest::Mesh(ready.and_then(Result::ok))];
    }
    // The listeners of the sidecars would be on the node's loopback.
    if twist == Twist::HostNetwork {
        return vec![Guest::IstioPortless];
    }
    let mesh = dice.pick(&[
        (6, Guest::Istio),
        (3, Guest::IstioOld),
        (2, Guest::IstioAncient),
        (2, Guest::IstioMute),
        (1, Guest::IstioPortless),
        (1, Guest::IstioHanging),
        (3, Guest::Linkerd),
        (1, Guest::LinkerdClosed),
    ]);
    let other = dice.pick(&[
        (3, Guest::CloudSql),
        (2, Guest::Dapr),
        (1, Guest::DaprToken),
    ]);
    match dice.below(20) {
        0..=9 => vec![mesh],
        10..=12 => vec![other],
        13..=16 => vec![other, mesh],
        17 => vec![Guest::CloudSqlSpoiling],
        18 if policy == RestartPolicy::OnFailure => vec![Guest::IstioReturning],
        _ => vec![if dice.one_in(3) {
            Guest::IstioDeaf
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
        let stories: Vec<&Story> = rounds.iter().flat_map(|round| &round.stories).collect();
        let finishing = stories.iter().filter(|story| story.finishes()).count();
        assert!(
            finishing * 2 > stories.len(),
            "{finishing} of {}",
            stories.len()
        );
        assert!(finishing < stories.len());
        for lane in [Lane::Agent, Lane::Servers] {
            for (_, fault) in Fault::of(lane) {
                let mut lanes = rounds.iter().flat_map(|round| &round.faults);
                let planned = lanes.any(|(_, all)| all.iter().any(|one| one.fault == *fault));
                assert!(planned, "{fault:?} never comes");
            }
        }
        for guest in [
            Guest::IstioDeaf,
            Guest::IstioReturning,
            Guest::CloudSqlSpoiling,
        ] {
            assert!(stories.iter().any(|story| story.guests.contains(&guest)));
        }
    }
}
