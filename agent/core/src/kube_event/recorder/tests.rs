mod property;

use std::{sync::Arc, time::Duration};

use super::super::recorder::*;
use crate::{
    decision::{LeftToKubelet, NotApplicable, SkipReason, WaitReason},
    hold::{self, Failed, Released, Tally},
    pod::spec::ProbeKind,
    quit::outcome::Outcome,
    recipe::{
        ExitCode,
        step::{Signal, Step},
    },
    settings::mode::Mode,
    start::{self, Probed, Start, Why},
};

const POD: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

fn decision(kind: Kind) -> Decision {
    Decision {
        pod: PodUid::parse(POD).unwrap(),
        pod_name: "shop/report".to_owned(),
        container: Some("istio-proxy".to_owned()),
        kind,
        since_exit: Some(Duration::from_micros(14_200)),
    }
}

fn term() -> Step {
    Step::signal(Signal::Term)
}

fn recipe() -> Arc<str> {
    "istio".into()
}

fn failed(outcome: Outcome) -> Kind {
    Kind::StepFailed {
        recipe: recipe(),
        step: Step::signal(Signal::Int),
        outcome,
        next: Some(term()),
    }
}

fn accepted() -> Kind {
    Kind::QuitAccepted {
        recipe: recipe(),
        step: term(),
        outcome: Outcome::Signalled,
        code: ExitCode::ZERO,
    }
}

fn ended(requested: bool) -> Kind {
    Kind::SidecarEnded {
        requested,
        status: Some(ExitStatus::Code(0)),
    }
}

fn all(kinds: Vec<Kind>) -> Vec<(Reason, String)> {
    let mut recorder = EventRecorder::new("node-1".to_owned());
    let notices = kinds
        .into_iter()
        .filter_map(|kind| recorder.notice(1, &decision(kind)));
    notices.map(|notice| (notice.reason, notice.note)).collect()
}

fn one(kind: Kind) -> (Reason, String) {
    let mut all = all(vec![kind]);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn a_usual_job_has_one_event() {
    let finished = Kind::PodFinished {
        sidecars: vec!["istio-proxy".to_owned()],
    };
    let running = Kind::Waiting(WaitReason::Runs {
        container: "app".to_owned(),
    });
    let found = all(vec![running, finished, accepted(), ended(true)]);
    let note = "sidecar istio-proxy ended with exit code 0, 14 ms after the pod's last app: SIGTERM was delivered";
    assert_eq!(found, [(Reason::SidecarQuit, note.to_owned())]);
}

#[test]
fn a_sidecar_that_ends_before_the_apps_has_no_time_after_them() {
    let mut recorder = EventRecorder::new("node-1".to_owned());
    let forced = Decision {
        since_exit: None,
        ..decision(ended(true))
    };
    let note = recorder.notice(1, &forced).unwrap().note;
    assert_eq!(note, "sidecar istio-proxy ended with exit code 0");
}

#[test]
fn the_note_has_the_failed_steps() {
    let found = all(vec![
        failed(Outcome::Rejected(404)),
        accepted(),
        ended(true),
    ]);
    assert_eq!(found.len(), 1);
    let note = &found[0].1;
    assert!(
        note.ends_with("SIGTERM was delivered; before that: SIGINT was answered with status 404"),
        "{note}"
    );
    // The attempts are forgotten after the end of the sidecar.
    let found = all(vec![
        failed(Outcome::Rejected(404)),
        ended(false),
        accepted(),
        ended(true),
    ]);
    assert!(!found[0].1.contains("before"), "{found:?}");
}

#[test]
fn the_last_steps_are_kept_for_each_sidecar() {
    let mut recorder = EventRecorder::new("node-1".to_owned());
    assert_eq!(recorder.node(), "node-1");
    let mut found = |container: &str, kind: Kind| {
        let decision = Decision {
            container: Some(container.to_owned()),
            ..decision(kind)
        };
        recorder.notice(1, &decision).map(|notice| notice.note)
    };
    for code in 401..=405 {
        assert_eq!(found("proxy", failed(Outcome::Rejected(code))), None);
        assert_eq!(found("logs", failed(Outcome::Rejected(code + 100))), None);
    }
    let tried = |codes: [u16; 4]| {
        let tried = codes.map(|code| format!("SIGINT was answered with status {code}"));
        tried.join("; ")
    };
    for (container, codes) in [
        ("proxy", [402, 403, 404, 405]),
        ("logs", [502, 503, 504, 505]),
    ] {
        found(container, accepted());
        let note = found(container, ended(true)).unwrap();
        let before = format!("before that: {}", tried(codes));
        assert!(note.ends_with(&before), "{note}");
    }
}

#[test]
fn a_sidecar_that_stays_has_the_failed_steps() {
    let gave_up = Kind::GaveUp {
        reason: GaveUp::StillRuns,
    };
    let found = all(vec![failed(Outcome::TimedOut), gave_up]);
    assert_eq!(found[0].0, Reason::SidecarStays);
    let note = &found[0].1;
    assert!(
        note.contains("delete the pod") && note.contains("SIGINT timed out"),
        "{note}"
    );
}

#[test]
fn table() {
    let tally = |connections| Tally {
        connections,
        longest: Duration::from_millis(812),
        ..Tally::default()
    };
    let held = Duration::from_secs(2);
    let released = |why, connections| Kind::HoldReleased {
        why,
        held,
        adopted: false,
        tally: tally(connections),
    };
    let lost = |why| Kind::HoldReleased {
        why,
        held,
        adopted: false,
        tally: Tally {
            lost: 3,
            ..Tally::default()
        },
    };
    let adopted = |why| Kind::HoldReleased {
        why,
        held,
        adopted: true,
        tally: tally(1),
    };
    let would_hold = |why, connections| Kind::WouldHold {
        why,
        held,
        tally: tally(connections),
        starts: Vec::new(),
    };
    let start_released = |why| Kind::StartReleased { why, held };
    let bad = |place| {
        Kind::InvalidAnnotation(InvalidAnnotation {
            place,
            key: annotation::QUIT,
            value: "fasle".to_owned(),
            expected: "\"true\" or \"false\"",
        })
    };
    let would_quit = Kind::WouldQuit {
        recipe: recipe(),
        step: term(),
    };
    let unsupported = Kind::RuntimeUnsupported {
        runtime_class: Some("gvisor".to_owned()),
    };
    let stays = Kind::HoldExtended { deadline: held };
    let probe = start::NotHeld::Probe(Probed {
        kind: ProbeKind::Liveness,
        kills_after: held,
    });
    let denied = start::NotHeld::Denied {
        reason: "EACCES".to_owned(),
    };
    let rows = [
        (
            would_quit,
            Reason::WouldQuit,
            "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite",
        ),
        (unsupported, Reason::RuntimeUnsupported, "RuntimeClass"),
        (
            bad(Place::Pod),
            Reason::InvalidAnnotation,
            "annotation of this pod) is \"fasle\"",
        ),
        (
            bad(Place::NamespaceLabel),
            Reason::InvalidAnnotation,
            "label of the Namespace",
        ),
        (
            released(Released::Ready, 2),
            Reason::ConnectionsHeld,
            "ready, 2000 ms after the hold began; 2 connections had waited, the longest for 812 ms",
        ),
        (
            released(Released::SidecarEnded, 1),
            Reason::ConnectionsHeld,
            "1 connection had waited",
        ),
        (
            lost(Released::Ready),
            Reason::ConnectionsHeld,
            "no connection had waited; 3 more continue with their next retransmission",
        ),
        (
            lost(Released::Deadline),
            Reason::HoldDeadlineExceeded,
            "no connection had waited; 3 more continue with their next retransmission. Find out why",
        ),
        (
            released(Released::Deadline, 0),
            Reason::HoldDeadlineExceeded,
            "usher.dev/hold-deadline",
        ),
        (
            adopted(Released::Ready),
            Reason::ConnectionsHeld,
            "ready, 2000 ms after this agent adopted the hold; 1 connection had",
        ),
        (
            adopted(Released::Deadline),
            Reason::HoldDeadlineExceeded,
            "not ready at the deadline: connections are released",
        ),
        (
            would_hold(Released::Ready, 1),
            Reason::WouldHold,
            "1 connection was refused before the sidecar was ready, the first 812 ms before; usher would have held it, but",
        ),
        (
            would_hold(Released::Ready, 2),
            Reason::WouldHold,
            "2 connections were refused before the sidecar was ready, the first 812 ms before; usher would have held them",
        ),
        (
            would_hold(Released::ProbeFailed, 1),
            Reason::WouldHold,
            "1 connection was refused before the end of the hold, the first 812 ms before",
        ),
        (
            would_hold(Released::Ready, 1),
            Reason::WouldHold,
            "kubectl annotate node node-1 usher.dev/hold=enforce --overwrite",
        ),
        (stays, Reason::HoldExtended, "usher.dev/on-deadline: closed"),
        (
            Kind::HoldFailed(Failed::Arm("EPERM".to_owned())),
            Reason::HoldFailed,
            "may be refused. If the app does not retry, let it do so; the cause: EPERM",
        ),
        (
            Kind::HoldFailed(Failed::Lost),
            Reason::HoldFailed,
            "released and may be refused",
        ),
        (
            Kind::HoldFailed(Failed::Release("EPERM".to_owned())),
            Reason::HoldFailed,
            "see usher rules POD; the cause: EPERM",
        ),
        (
            start_released(Why::Released(Released::Ready)),
            Reason::StartHeld,
            "held for 2000 ms",
        ),
        (
            start_released(Why::Limit),
            Reason::StartReleasedEarly,
            "startupProbe",
        ),
        (
            start_released(Why::HolderEnded),
            Reason::StartNotHeld,
            "agent's log",
        ),
        (Kind::StartMissed, Reason::StartMissed, "started before"),
        (
            Kind::StartNotHeld(probe),
            Reason::StartNotHeld,
            "livenessProbe",
        ),
        (
            Kind::StartNotHeld(denied),
            Reason::StartNotHeld,
            "make its program readable",
        ),
    ];
    for (kind, reason, part) in rows {
        let (found, note) = one(kind);
        assert_eq!(found, reason);
        assert!(note.contains(part), "{note}");
    }
    let none = vec![
        released(Released::Ready, 0),
        released(Released::SidecarEnded, 0),
        released(Released::NotWanted, 3),
        released(Released::Ending, 3),
        would_hold(Released::Ready, 0),
        start_released(Why::ContainerEnded),
        start_released(Why::Released(Released::Deadline)),
        ended(false),
        Kind::NotApplicable(NotApplicable::NoSidecar),
        Kind::NotHeld(hold::NotHeld::OptedOut),
        Kind::Skipped {
            reason: SkipReason::OptedOut,
        },
        Kind::QuitOnDeletion {
            sidecars: Vec::new(),
        },
        Kind::WouldQuitOnDeletion {
            recipe: "istio".into(),
            step: Step::signal(Signal::Term),
        },
        Kind::LeftToKubelet(LeftToKubelet::NoStep),
        Kind::StartHeld(Start {
            container: "app".to_owned(),
            limit: held,
            probe: None,
        }),
    ];
    assert_eq!(all(none), []);
    assert_eq!(Mode::default(), Mode::Observe, "the default of the notes");
}

#[test]
fn a_pod_without_a_name_has_no_event() {
    let mut recorder = EventRecorder::new("node-1".to_owned());
    for name in [POD, "shop/", "/report", "shop/a b", "shop/../x"] {
        let mut decision = decision(Kind::StartMissed);
        decision.pod_name = name.to_owned();
        assert_eq!(recorder.notice(1, &decision), None, "{name}");
    }
}
