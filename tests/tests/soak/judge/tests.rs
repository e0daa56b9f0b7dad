//! The judge reports wrong outcomes, and nothing else.

use std::time::Duration;

use usher_tests::synthetic::RestartPolicy::{self, Always, Never, OnFailure};

use super::*;
use crate::facts::Connection;
use crate::plan::{App, Hold};
use crate::schedule;
use crate::sidecar::Sidecar;

type Spoil = fn(&mut Facts);

const SECOND: u64 = 1_000_000_000;

fn plan(policy: RestartPolicy, code: u8, sidecars: &[Sidecar]) -> PodPlan {
    let app = App {
        lives: vec![(Duration::ZERO, code)],
        policy: None,
        again_after: None,
    };
    PodPlan {
        policy,
        apps: vec![app],
        sidecars: sidecars.to_vec(),
        hold: None,
        ..schedule::first()
    }
}

fn requested(at: u64) -> Life {
    Life {
        asks: vec![(at, "15020 POST /quitquitquit HTTP/1.1".to_owned())],
        terms: Vec::new(),
        code: Some(0),
    }
}

/// Created at 100 s, requested to exit at 110 s, removed at 200 s after enough time without faults; each sidecar exited on a
/// request at 111 s.
fn good(plan: PodPlan) -> Facts {
    let sidecars = plan.sidecars.iter().map(|_| vec![requested(111 * SECOND)]);
    Facts {
        uid: "uid".to_owned(),
        made: 100 * SECOND,
        end_requested: Some(110 * SECOND),
        gone: 200 * SECOND,
        settled: true,
        sidecars: sidecars.collect(),
        connection: Connection::default(),
        answered: true,
        ready: None,
        table: false,
        explained: String::new(),
        plan,
    }
}

fn usual() -> Facts {
    good(plan(Never, 0, &[Sidecar::Istio]))
}

fn trouble(fault: Fault, from: u64, to: u64) -> Trouble {
    Trouble {
        fault,
        from: from * SECOND,
        sure: from * SECOND,
        to: to * SECOND,
    }
}

#[test]
fn fates() {
    let twisted = |variation| PodPlan {
        variation,
        ..plan(Never, 0, &[Sidecar::Istio])
    };
    let table = [
        (plan(Never, 0, &[Sidecar::Istio]), Fate::Leaves),
        (plan(Never, 1, &[Sidecar::Istio]), Fate::Leaves),
        (plan(OnFailure, 0, &[Sidecar::Linkerd]), Fate::Leaves),
        (plan(OnFailure, 1, &[Sidecar::Istio]), Fate::Untouched),
        (plan(Always, 0, &[Sidecar::Istio]), Fate::Untouched),
        (plan(Never, 0, &[Sidecar::IstioDeaf]), Fate::Stays),
        (plan(Never, 0, &[Sidecar::CloudSqlFailing]), Fate::Untouched),
        (plan(Never, 1, &[Sidecar::CloudSqlFailing]), Fate::Leaves),
        (
            plan(OnFailure, 0, &[Sidecar::CloudSqlFailing]),
            Fate::Untouched,
        ),
        (twisted(Variation::OptedOut), Fate::Untouched),
        (twisted(Variation::Excluded), Fate::Untouched),
        (twisted(Variation::BadAnnotations), Fate::Leaves),
        (twisted(Variation::Deleted), Fate::Anything),
    ];
    for (plan, expected) in table {
        assert_eq!(fate(&plan, 0), expected, "{plan:?}");
    }
}

#[test]
fn correct_outcomes_pass() {
    let both = good(plan(Never, 0, &[Sidecar::CloudSql, Sidecar::Istio]));
    let mut mesh_last = both.clone();
    mesh_last.sidecars[1] = vec![requested(112 * SECOND)];
    for facts in [usual(), both, mesh_last] {
        assert_eq!(pod(&facts, &[]), Vec::<String>::new());
    }
}

/// Facts with one wrong value, and a word of the complaint.
#[test]
fn wrong_outcomes_are_reported() {
    let table: [(&str, Spoil); 9] = [
        ("runs on", |facts| facts.sidecars[0][0].code = None),
        ("before every app", |facts| {
            facts.sidecars[0] = vec![requested(109 * SECOND)];
        }),
        ("before every app", |facts| facts.end_requested = None),
        ("left alone", |facts| {
            facts.plan.variation = Variation::OptedOut;
        }),
        ("fails its pod", |facts| {
            facts.sidecars[0][0].code = Some(143);
        }),
        ("requested 2 times", |facts| {
            let again = facts.sidecars[0][0].asks[0].clone();
            facts.sidecars[0][0].asks.push(again);
        }),
        ("table is left", |facts| facts.table = true),
        ("killed", |facts| {
            facts.plan.sidecars = vec![Sidecar::IstioDeaf];
            facts.sidecars[0][0].code = Some(137);
        }),
        ("mesh", |facts| {
            facts.plan.sidecars = vec![Sidecar::Istio, Sidecar::Dapr];
            facts.sidecars.push(vec![requested(112 * SECOND)]);
        }),
    ];
    for (word, spoil) in table {
        let mut facts = usual();
        spoil(&mut facts);
        let wrong = pod(&facts, &[]);
        assert!(
            wrong.iter().any(|what| what.contains(word)),
            "{word}: {wrong:?}"
        );
    }
}

#[test]
fn sidecar_may_run_on_while_faults_last() {
    let mut facts = usual();
    facts.sidecars[0][0].code = None;
    facts.settled = false;
    assert_eq!(pod(&facts, &[]), Vec::<String>::new());
}

#[test]
fn observe_mode_sends_no_request() {
    let facts = usual();
    for (trouble, wrong) in [
        (trouble(Fault::Observes, 105, 120), true),
        (trouble(Fault::QuitOff, 105, 120), true),
        // In flight when the mode changed, or after it had changed back.
        (trouble(Fault::Observes, 110, 120), false),
        (trouble(Fault::Observes, 100, 111), false),
        (trouble(Fault::ObservesHold, 105, 120), false),
    ] {
        let found = pod(&facts, &[trouble]);
        assert_eq!(!found.is_empty(), wrong, "{trouble:?}: {found:?}");
    }
}

#[test]
fn a_restart_explains_a_second_request() {
    let mut facts = usual();
    let again = facts.sidecars[0][0].asks[0].clone();
    facts.sidecars[0][0].asks.push(again);
    let restart = trouble(Fault::Killed, 111, 112);
    assert_eq!(pod(&facts, &[restart]), Vec::<String>::new());
}

fn held(connected: Option<u64>, failed: Option<u64>) -> Facts {
    let hold = Hold {
        start: true,
        deadline: Duration::from_secs(10),
        ready: Some(Duration::from_secs(2)),
    };
    let mut facts = good(plan(Never, 0, &[Sidecar::Mesh(Some(2000))]));
    facts.plan.hold = Some(hold);
    facts.ready = Some(103 * SECOND);
    facts.connection = Connection {
        ran: Some(101 * SECOND),
        connected: connected.map(|at| at * SECOND),
        failed: failed.map(|at| at * SECOND),
    };
    facts
}

#[test]
fn no_hold_past_its_deadline() {
    assert_eq!(pod(&held(Some(104), None), &[]), Vec::<String>::new());
    assert_eq!(pod(&held(None, Some(125)), &[]), Vec::<String>::new());
    assert_eq!(pod(&held(None, Some(135)), &[]).len(), 1);
    // The connection waits until the end.
    assert_eq!(pod(&held(None, None), &[]).len(), 1);
    let mut never_ran = held(None, None);
    never_ran.connection.ran = None;
    assert_eq!(pod(&never_ran, &[]).len(), 1);
}

#[test]
fn held_app_connects_after_the_proxy_is_ready() {
    let decided = ["hold-armed".to_owned(), "start-held".to_owned()];
    let mut fine = held(Some(104), None);
    fine.connection.ran = Some(103 * SECOND + 1);
    assert_eq!(armed(&fine, &[], &decided), None);
    assert!(
        armed(&held(Some(104), None), &[], &decided).is_some_and(|what| what.contains("too early"))
    );
    assert!(
        armed(&held(None, Some(102)), &[], &decided).is_some_and(|what| what.contains("failed"))
    );
    let reported = ["not-held".to_owned()];
    assert_eq!(armed(&held(None, Some(102)), &[], &reported), None);
    assert!(
        armed(&held(None, Some(102)), &[], &[]).is_some_and(|what| what.contains("not reported"))
    );
    let near = trouble(Fault::Stopped, 95, 96);
    assert_eq!(armed(&held(None, Some(102)), &[near], &decided), None);
}

#[test]
fn events() {
    let calm: &[Trouble] = &[];
    let observed = [trouble(Fault::Observes, 105, 120)];
    let opted_out = good(PodPlan {
        variation: Variation::OptedOut,
        ..plan(Never, 0, &[Sidecar::Istio])
    });
    let deaf = good(plan(Never, 0, &[Sidecar::IstioDeaf]));
    let lingers = good(PodPlan {
        variation: Variation::Lingers,
        ..plan(Never, 0, &[Sidecar::Istio])
    });
    let table = [
        (usual(), calm, "SidecarQuit", true),
        (usual(), calm, "SidecarStays", false),
        (usual(), calm, "WouldQuit", false),
        (usual(), &observed, "WouldQuit", true),
        (usual(), calm, "ConnectionsHeld", false),
        (usual(), calm, "InvalidAnnotation", false),
        (opted_out.clone(), calm, "SidecarQuit", false),
        (opted_out, &observed, "WouldQuit", false),
        (deaf, calm, "SidecarStays", true),
        (usual(), calm, "LingerUnsupported", false),
        (lingers.clone(), calm, "LingerUnsupported", true),
        (lingers, calm, "LingerReleasedEarly", false),
        (held(Some(104), None), calm, "ConnectionsHeld", true),
        (held(Some(104), None), calm, "WouldHold", false),
    ];
    for (facts, troubles, reason, justified) in table {
        assert_eq!(
            !unjustified(&facts, troubles, reason),
            justified,
            "{reason}: {facts:?}"
        );
    }
    let seen = BTreeSet::from([Fault::HolderKilled]);
    assert!(!unjustified_on_node(&seen, "HolderFailed"));
    assert!(unjustified_on_node(&seen, "ConfigurationRejected"));
    assert!(unjustified_on_node(&seen, "HoldUnsupported"));
    assert_eq!(due(&usual(), &[]), ["SidecarQuit"]);
    let killed = trouble(Fault::Killed, 111, 112);
    assert!(due(&usual(), &[killed]).is_empty());
    let deaf = good(plan(Never, 0, &[Sidecar::IstioDeaf]));
    assert_eq!(due(&deaf, &[]), ["SidecarStays"]);
}
