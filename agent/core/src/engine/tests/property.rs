//! Any order of events gives the same decision, and nothing is ever asked to
//! quit while an app container may come back.
//!
//! A pod is drawn with its policies, rules and what each container does, and a
//! [kubelet](super::kubelet) plays its life. What the kernel shows of it is reported in any order
//! that it could show it in, with names and codes missing; lists of the kubelet
//! come in between with statuses as old as they like to be; the agent may start
//! at any moment, and the play may be cut at any moment.
//!
//! One thing is taken for granted: an agent that starts while a whole pod is
//! being restarted (KEP-5532) knows nothing of it. It starts after that, and
//! receives no statuses that were made before. And no container is lost before it
//! has begun while there is no agent to see it, or where a rule may restart the
//! whole pod: a lost run without a name would be missed in the count of
//! those since the restart, and the pod never be taken for finished.

mod listed;
mod theatre;

use proptest::prelude::*;

use self::{listed::run, theatre::Theatre};
use super::kubelet::{Member, Move, Policy, Rule, State};

#[derive(Debug, Clone)]
struct Play {
    members: Vec<Member>,
    /// What happens next, and how old a list is.
    picks: Vec<(usize, usize)>,
    /// After how many picks the agent starts.
    start: usize,
    /// Whether the play goes on until nothing happens any more.
    to_the_end: bool,
    /// For each run, whether the kernel tells its name and its code.
    reported: Vec<(bool, bool)>,
    /// Usher only observes, and a person orders it to act whenever something happens, without insisting.
    by_hand: bool,
}

fn member(is_app: bool) -> impl Strategy<Value = Member> {
    use Policy::{Always, Never, OnFailure};
    let policy = prop_oneof![4 => Just(Never), 3 => Just(OnFailure), 1 => Just(Always)];
    let code = || prop_oneof![3 => Just(0u8), 2 => Just(1), 2 => Just(42)];
    let codes = prop::collection::vec(code(), 1..3);
    let rule = (codes, any::<bool>(), any::<bool>());
    let rule = rule.prop_map(|(codes, within, all)| Rule { codes, within, all });
    let rules = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(rule, 1..3)
    ];
    let ends = if is_app { 1..4 } else { 0..2 };
    let ends = prop::collection::vec(code(), ends);
    // A sidecar that comes back a third time is left alone, whatever brought it back.
    let most: usize = if is_app { 2 } else { 1 };
    let losses = prop_oneof![3 => Just(0usize), 1 => 1..=most];
    (policy, rules, ends, losses).prop_map(move |(policy, rules, ends, losses)| Member {
        name: String::new(),
        is_app,
        policy,
        rules,
        codes: ends.into(),
        losses,
        runs: 0,
        state: State::Waits(None),
    })
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    let apps = prop::collection::vec(member(true), 1..4);
    let sidecars = prop::collection::vec(member(false), 1..3);
    let all = (apps, sidecars).prop_map(|(apps, sidecars)| [apps, sidecars].concat());
    all.prop_shuffle().prop_map(|mut members| {
        let mut sidecars = ["istio-proxy", "shipper"].into_iter();
        let mut rules = members.iter().flat_map(|member| &member.rules);
        if rules.any(|rule| rule.all) {
            members.iter_mut().for_each(|member| member.losses = 0);
        }
        for (at, member) in members.iter_mut().enumerate() {
            member.name = if member.is_app {
                format!("app-{at}")
            } else {
                sidecars.next().unwrap().to_owned()
            };
        }
        members
    })
}

fn play() -> impl Strategy<Value = Play> {
    let picks = prop::collection::vec((0usize..64, 0usize..64), 0..80);
    let start = prop_oneof![Just(0usize), 0usize..60];
    let reported = prop::collection::vec(any::<(bool, bool)>(), 8);
    let reported = prop_oneof![Just(vec![(true, true)]), reported];
    let parts = (
        members(),
        picks,
        start,
        any::<bool>(),
        reported,
        any::<bool>(),
    );
    parts.prop_map(
        |(members, picks, start, to_the_end, reported, by_hand)| Play {
            members,
            picks,
            start,
            to_the_end,
            reported,
            by_hand,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn asked_to_quit_if_and_only_if_finished(play in play()) {
        let mut theatre = Theatre::new(&play);
        theatre.perform();
        let kubelet = &theatre.kubelet;
        let mut left = kubelet.members.iter().filter(|member| !member.is_app && member.runs_now());
        let quits = left.find(|member| !member.restarts_after(0));
        // Where a play was cut, one sidecar may wait for another to be started.
        let works = kubelet.moves().contains(&Move::Work);
        if kubelet.is_finished() && !works {
            prop_assert!(quits.is_none(), "never asked\n{}", theatre.story.join("\n"));
        }
        let mut sidecars = kubelet.members.iter().filter(|member| !member.is_app);
        let all_quit = sidecars.all(|member| {
            let newest = member.runs.checked_sub(1).map(|number| run(member, number));
            newest.is_some_and(|run| theatre.asked.contains(&run))
        });
        if all_quit {
            let alone = kubelet.phase(|member| member.is_app);
            prop_assert_eq!(kubelet.phase(|_| true), alone);
        }
    }
}
