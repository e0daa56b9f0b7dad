//! Any order of events gives the same decision, and no sidecar is requested to quit while an app container may be
//! restarted.
//!
//! A scenario is a pod with policies, rules and exit codes of its containers; a [kubelet](super::kubelet) runs it. The
//! kernel's events arrive in any order that is possible, with names and exit codes missing; lists of the kubelet arrive
//! between them with statuses of any age; the agent may start at any moment, and the scenario may be cut at any moment.
//!
//! Two assumptions. An agent that starts while a whole pod is restarted (KEP-5532) has no data about the restart, so it
//! starts after that, and receives no older statuses. No container is lost before it has begun while no agent runs, or
//! where a rule may restart the whole pod: a lost run without a name would be missing in the count of those since the
//! restart, and the pod would never count as finished.

mod listed;
mod simulation;

use proptest::prelude::*;

use self::{listed::run, simulation::Simulation};
use super::kubelet::{Member, Move, Policy, Rule, State};

#[derive(Debug, Clone)]
struct Scenario {
    members: Vec<Member>,
    /// The choice of each next event, and the age of each list.
    picks: Vec<(usize, usize)>,
    /// The number of picks before the agent starts.
    start: usize,
    /// Whether the scenario continues until no event is possible.
    to_the_end: bool,
    /// For each run, whether its name and its exit code are reported.
    reported: Vec<(bool, bool)>,
    /// usher observes, and an operator orders `usher quit` without `--force` after each event.
    manual: bool,
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
    // A sidecar that starts a third time is left alone, whatever restarted it.
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

fn scenario() -> impl Strategy<Value = Scenario> {
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
        |(members, picks, start, to_the_end, reported, manual)| Scenario {
            members,
            picks,
            start,
            to_the_end,
            reported,
            manual,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quit_is_requested_if_and_only_if_the_pod_finished(scenario in scenario()) {
        let mut simulation = Simulation::new(&scenario);
        simulation.run_all();
        let kubelet = &simulation.kubelet;
        let mut left = kubelet.members.iter().filter(|member| !member.is_app && member.runs_now());
        let quits = left.find(|member| !member.restarts_after(0));
        // In a scenario that was cut, one sidecar may still wait for the start of another.
        let works = kubelet.moves().contains(&Move::Work);
        if kubelet.is_finished() && !works {
            prop_assert!(quits.is_none(), "never requested\n{}", simulation.trace.join("\n"));
        }
        let mut sidecars = kubelet.members.iter().filter(|member| !member.is_app);
        let all_quit = sidecars.all(|member| {
            let newest = member.runs.checked_sub(1).map(|number| run(member, number));
            newest.is_some_and(|run| simulation.requested.contains(&run))
        });
        if all_quit {
            let alone = kubelet.phase(|member| member.is_app);
            prop_assert_eq!(kubelet.phase(|_| true), alone);
        }
    }
}
