//! The judge reports wrong outcomes, and nothing else.

use std::time::Duration;

use usher_tests::synthetic::RestartPolicy::{self, Always, Never, OnFailure};

use super::*;
use crate::facts::Visit;
use crate::guest::Guest;
use crate::schedule;
use crate::story::{App, Hold};

type Spoil = fn(&mut Facts);

const SECOND: u64 = 1_000_000_000;

fn story(policy: RestartPolicy, code: u8, guests: &[Guest]) -> Story {
    let app = App {
        lives: vec![(Duration::ZERO, code)],
        policy: None,
        again_after: None,
    };
    Story {
        policy,
        apps: vec![app],
        guests: guests.to_vec(),
        hold: None,
        ..schedule::first()
    }
}

fn asked(at: u64) -> Life {
    Life {
        asks: vec![(at, "15020 POST /quitquitquit HTTP/1.1".to_owned())],
        terms: Vec::new(),
        code: Some(0),
    }
}

/// Created at 100 s, requested to exit at 110 s, removed at 200 s after enough time without faults; each sidecar exited on a
/// request at 111 s.
fn good(story: Story) -> Facts {
    let guests = story.guests.iter().map(|_| vec![asked(111 * SECOND)]);
    Facts {
        uid: "uid".to_owned(),
        made: 100 * SECOND,
        end_requested: Some(110 * SECOND),
        gone: 200 * SECOND,
        settled: true,
        guests: guests.collect(),
        visit: Visit::default(),
        answered: true,
        ready: None,
        table: false,
        explained: String::new(),
        story,
    }
}

fn usual() -> Facts {
    good(story(Never, 0, &[Guest::Istio]))
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
    let twisted = |twist| Story {
        twist,
        ..story(Never, 0, &[Guest::Istio])
    };
    let table = [
        (story(Never, 0, &[Guest::Istio]), Fate::Leaves),
        (story(Never, 1, &[Guest::Istio]), Fate::Leaves),
        (story(OnFailure, 0, &[Guest::Linkerd]), Fate::Leaves),
        (story(OnFailure, 1, &[Guest::Istio]), Fate::Untouched),
        (story(Always, 0, &[Guest::Istio]), Fate::Untouched),
        (story(Never, 0, &[Guest::IstioDeaf]), Fate::Stays),
        (story(Never, 0, &[Guest::CloudSqlSpoiling]), Fate::Untouched),
        (story(Never, 1, &[Guest::CloudSqlSpoiling]), Fate::Leaves),
        (
            story(OnFailure, 0, &[Guest::CloudSqlSpoiling]),
            Fate::Untouched,
        ),
        (twisted(Twist::OptedOut), Fate::Untouched),
        (twisted(Twist::Excluded), Fate::Untouched),
        (twisted(Twist::BadAnnotations), Fate::Leaves),
        (twisted(Twist::Deleted), Fate::Anything),
    ];
    for (story, expected) in table {
        assert_eq!(fate(&story, 0), expected, "{story:?}");
    }
}

#[test]
fn correct_outcomes_pass() {
    let both = good(story(Never, 0, &[Guest::CloudSql, Guest::Istio]));
    let mut mesh_last = both.clone();
    mesh_last.guests[1] = vec![asked(112 * SECOND)];
    for facts in [usual(), both, mesh_last] {
        assert_eq!(pod(&facts, &[]), Vec::<String>::new());
    }
}

/// Facts with one wrong value, and a word of the complaint.
#[test]
fn wrong_outcomes_are_reported() {
    let table: [(&str, Spoil); 9] = [
        ("runs on", |facts| facts.guests[0][0].code = None),
        ("before every app", |facts| {
            facts.guests[0] = vec![asked(109 * SECOND)];
        }),
        ("before every app", |facts| facts.end_requested = None),
        ("left alone", |facts| facts.story.twist = Twist::OptedOut),
        ("spoils", |facts| facts.guests[0][0].code = Some(143)),
        ("asked 2 times", |facts| {
            let again = facts.guests[0][0].asks[0].clone();
            facts.guests[0][0].asks.push(again);
        }),
        ("table is left", |facts| facts.table = true),
        ("killed", |facts| {
            facts.story.guests = vec![Guest::IstioDeaf];
            facts.guests[0][0].code = Some(137);
        }),
        ("mesh", |facts| {
            facts.story.guests = vec![Guest::Istio, Guest::Dapr];
            facts.guests.push(vec![asked(112 * SECOND)]);
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
    facts.guests[0][0].code = None;
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
    let again = facts.guests[0][0].asks[0].clone();
    facts.guests[0][0].asks.push(again);
    let restart = trouble(Fault::Killed, 111, 112);
    assert_eq!(pod(&facts, &[restart]), Vec::<String>::new());
}

fn held(connected: Option<u64>, failed: Option<u64>) -> Facts {
    let hold = Hold {
        start: true,
        deadline: Duration::from_secs(10),
        ready: Some(Duration::from_secs(2)),
    };
    let mut facts = good(story(Never, 0, &[Guest::Mesh(Some(2000))]));
    facts.story.hold = Some(hold);
    facts.ready = Some(103 * SECOND);
    facts.visit = Visit {
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
    never_ran.visit.ran = None;
    assert_eq!(pod(&never_ran, &[]).len(), 1);
}

#[test]
fn held_app_connects_after_the_proxy_is_ready() {
    let decided = ["hold-armed".to_owned(), "start-held".to_owned()];
    let mut fine = held(Some(104), None);
    fine.visit.ran = Some(103 * SECOND + 1);
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
    let opted_out = good(Story {
        twist: Twist::OptedOut,
        ..story(Never, 0, &[Guest::Istio])
    });
    let deaf = good(story(Never, 0, &[Guest::IstioDeaf]));
    let lingers = good(Story {
        twist: Twist::Lingers,
        ..story(Never, 0, &[Guest::Istio])
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
    assert!(!unjustified_on_node(&seen, "StartHolderFailed"));
    assert!(unjustified_on_node(&seen, "ConfigurationRejected"));
    assert!(unjustified_on_node(&seen, "HoldUnsupported"));
    assert_eq!(due(&usual(), &[]), ["SidecarQuit"]);
    let killed = trouble(Fault::Killed, 111, 112);
    assert!(due(&usual(), &[killed]).is_empty());
    let deaf = good(story(Never, 0, &[Guest::IstioDeaf]));
    assert_eq!(due(&deaf, &[]), ["SidecarStays"]);
}
