//! Operator requests about connections.

use super::super::operator::*;
use crate::{
    base::id::SandboxId,
    decision::WaitReason,
    engine::tests::hold::{
        ARM, ARMED, WATCH, bare, held, istio, ready, sandbox, seconds, two_sidecars,
    },
    start::StartResult,
};

const RELEASED: &str = "an operator released it";

/// A pod whose app and proxy run for long. Its network namespace is not open.
fn started(mode: Mode, spec: Pod) -> Stage {
    let mut stage = bare(mode, spec);
    stage.run_all();
    stage.take_hold();
    stage
}

fn found(stage: &mut Stage, run: &str) -> SandboxId {
    let key = key(run);
    let sandbox = SandboxId::parse(key.id.as_str()).unwrap();
    stage.send(Event::Found {
        key,
        sandbox: sandbox.clone(),
        remains: None,
    });
    sandbox
}

#[test]
fn counting_table_is_replaced_by_a_hold() {
    let mut stage = held(Mode::Observe, istio());
    stage.hold();
    let output = taken(stage.request(Verb::Hold));
    assert_eq!(output.ports, [15001]);
    assert_eq!(output.despite, ["the node's mode is observe"]);
    assert_eq!(stage.take_hold(), ["release all"]);
    assert_eq!(stage.engine.hold_came_about(&uid()), Some(true));
    stage.released(0);
    assert_eq!(stage.take_hold()[1..], [ARM.to_owned()]);
    stage.armed();
    assert_eq!(stage.take_hold(), [ARMED]);
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [WATCH]);
    stage.probed(ready());
    stage.released(1);
    let output = stage.take_hold();
    assert!(
        output[1].starts_with("hold-released: the sidecar is ready"),
        "{output:?}"
    );
    assert_eq!(output[2], "forget");
    assert_eq!(stage.engine.hold_came_about(&uid()), Some(false));
}

#[test]
fn late_hold_affects_new_connections_only() {
    for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
        let mut stage = started(mode, istio());
        let output = taken(stage.request(Verb::Hold)).message;
        assert!(
            output.contains("existing connections are not changed"),
            "{output}"
        );
        assert_eq!(stage.take_hold(), ["look"]);
        let sandbox = found(&mut stage, "a");
        assert_eq!(stage.take_hold(), [ARM]);
        let result = Ok(());
        stage.send(Event::Armed {
            sandbox: sandbox.clone(),
            result,
        });
        assert_eq!(stage.take_hold(), [ARMED, WATCH]);
        assert_eq!(stage.engine.hold_came_about(&uid()), Some(true));
        let again = stage.request(Verb::Hold);
        assert!(matches!(again, Answer::Nothing(_)), "{again:?}");
        stage.pass(seconds(30));
        assert_eq!(stage.take_hold(), ["release all"], "{mode:?}");
        stage.send(Event::Released {
            sandbox,
            result: Ok(crate::hold::Tally::default()),
        });
        assert_eq!(
            stage.engine.hold_came_about(&uid()),
            Some(false),
            "{mode:?}"
        );
    }
}

#[test]
fn a_namespace_that_cannot_be_opened_is_reported() {
    let mut stage = started(Mode::Observe, istio());
    taken(stage.request(Verb::Hold));
    assert_eq!(stage.take_hold(), ["look"]);
    assert_eq!(stage.engine.hold_came_about(&uid()), None);
    let key = key("a");
    stage.send(Event::NotFound { key });
    assert_eq!(stage.engine.hold_came_about(&uid()), Some(false));
    // A table that cannot be created fails the hold as well.
    taken(stage.request(Verb::Hold));
    let sandbox = found(&mut stage, "a");
    let result = Err("no".to_owned());
    stage.send(Event::Armed { sandbox, result });
    assert_eq!(stage.engine.hold_came_about(&uid()), Some(false));
}

/// No container runs whose namespace could be opened: all wait for their next start.
#[test]
fn pod_whose_containers_have_all_ended_is_held_at_the_next_start() {
    let mut spec = istio();
    spec.restart_policy = RestartPolicy::Always;
    let mut stage = started(Mode::Enforce, spec);
    stage.exit("a", 1);
    stage.exit("i", 1);
    taken(stage.request(Verb::Hold));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start(PROXY, "i2");
    assert_eq!(stage.take_hold(), ["look"]);
    found(&mut stage, "i2");
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn pod_in_creation_is_held_despite_its_opt_out() {
    let mut spec = istio();
    let no = ("usher.dev/hold".to_owned(), "false".to_owned());
    spec.annotations.extend([no]);
    let mut stage = held(Mode::Observe, spec);
    let output = taken(stage.request(Verb::Hold));
    assert!(
        output.despite[1].contains("usher.dev/hold is"),
        "{output:?}"
    );
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn hold_request_is_redundant_when_the_pod_will_be_held() {
    let no = ("usher.dev/hold".to_owned(), "false".to_owned());
    for (mode, opted_out, anyway) in [
        (Mode::Enforce, false, true),
        (Mode::Enforce, true, false),
        (Mode::Observe, false, false),
        (Mode::Off, false, false),
    ] {
        let mut spec = istio();
        spec.annotations.extend(opted_out.then(|| no.clone()));
        let mut stage = held(mode, spec);
        let first = stage.request(Verb::Hold);
        if anyway {
            let Answer::Nothing(message) = first else {
                panic!("{mode:?}: {first:?}");
            };
            assert!(message.starts_with("connections wait anyway"), "{message}");
            continue;
        }
        taken(first);
        // The hold is already requested.
        let again = stage.request(Verb::Hold);
        assert!(matches!(again, Answer::Nothing(_)), "{mode:?}: {again:?}");
    }
}

#[test]
fn reply_names_each_awaited_sidecar_once() {
    let message = |spec| taken(held(Mode::Observe, spec).request(Verb::Hold)).message;
    let waits = "wait from the end of its init containers on until";
    let expected = format!("connections to :15001 {waits} istio-proxy is ready, for at most 30s");
    assert_eq!(message(istio()), expected);
    // Each of the two has two ports.
    let mut spec = two_sidecars();
    let declared = "istio-proxy=9999".to_owned();
    spec.annotations = [("usher.dev/hold-ports".to_owned(), declared)].into();
    let ports = ":15001, :9999, :3500, :50001";
    let expected =
        format!("connections to {ports} {waits} istio-proxy, daprd are ready, for at most 30s");
    assert_eq!(message(spec), expected);
}

#[test]
fn a_refused_hold_has_a_reason() {
    let mut spec = istio();
    spec.host_network = true;
    let mut stage = started(Mode::Enforce, spec);
    let why = refused(stage.request(Verb::Hold)).to_string();
    assert_eq!(why, "the pod uses the host's network namespace");
    assert!(matches!(
        refused(stage.request(Verb::Repair)),
        Refused::NotHeld(_)
    ));
    let mut stage = started(Mode::Enforce, istio());
    stage.exit("a", 0);
    let why = refused(stage.request(Verb::Hold)).to_string();
    assert_eq!(why, "the pod is being deleted, or its apps have ended");
    assert!(stage.operator_requests().is_empty());
}

#[test]
fn waiting_connections_are_released() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    let dry = taken(stage.request_with(Verb::Release, true));
    assert_eq!(stage.take_hold(), [""; 0]);
    assert_eq!(taken(stage.request(Verb::Release)), dry);
    assert_eq!(dry.message, "releases connections to :15001");
    assert_eq!(dry.ports, [15001]);
    assert_eq!(stage.take_hold(), ["release all"]);
    let again = stage.request(Verb::Release);
    assert_eq!(
        again,
        Answer::Nothing("its ports are being released already".to_owned())
    );
    assert_eq!(refused(stage.request(Verb::Hold)), Refused::Busy);
    stage.released(2);
    let output = stage.take_hold();
    assert!(
        output[0].starts_with(&format!("hold-released: {RELEASED}")),
        "{output:?}"
    );
    assert_eq!(output[1], "forget");
    let over = stage.request(Verb::Release);
    assert_eq!(over, Answer::Nothing("nothing is held".to_owned()));
    assert_eq!(
        stage.operator_requests(),
        ["release, requested by uid 0, pid 4711: releases connections to :15001"]
    );
}

/// Ports that an operator released, and ports that were never held.
#[test]
fn waiting_start_reports_what_released_it() {
    let reported = |change: fn(&mut Stage)| {
        let mut spec = istio();
        spec.annotations = [("usher.dev/hold".to_owned(), "start".to_owned())].into();
        let mut stage = held(Mode::Enforce, spec);
        stage.announce();
        let start = |reported| Event::Start {
            key: key("a"),
            name: "app".to_owned(),
            result: reported,
        };
        stage.send(start(StartResult::Marked));
        stage.start("app", "a");
        stage.send(start(StartResult::Held));
        change(&mut stage);
        stage.take_hold();
        stage.send(start(StartResult::Released {
            held: Some(Duration::from_millis(12)),
            at_limit: false,
            ran: false,
        }));
        stage.take_hold().remove(0)
    };
    let released_by_operator = reported(|stage| {
        stage.armed();
        taken(stage.request(Verb::Release));
        stage.released(0);
    });
    let expected = format!("start-released: {RELEASED}; its start was held for 12 ms");
    assert_eq!(released_by_operator, expected);
    let failed = reported(|stage| {
        stage.send(Event::Armed {
            sandbox: sandbox(),
            result: Err("no table".to_owned()),
        });
    });
    assert!(
        failed.starts_with("start-released: mode, annotations"),
        "{failed}"
    );
}

#[test]
fn pending_hold_is_canceled() {
    let nothing = || Answer::Nothing("nothing is held".to_owned());
    let not = "connections will not be held";
    for mode in [Mode::Off, Mode::Observe] {
        let mut stage = held(mode, istio());
        assert_eq!(stage.request(Verb::Release), nothing(), "{mode:?}");
    }
    let mut stage = held(Mode::Enforce, istio());
    assert_eq!(taken(stage.request(Verb::Release)).message, not);
    // A pending hold: the agent has not found the network namespace yet.
    let mut stage = started(Mode::Off, istio());
    assert_eq!(stage.request(Verb::Release), nothing());
    taken(stage.request(Verb::Hold));
    assert_eq!(taken(stage.request(Verb::Release)).message, not);
}

#[test]
fn a_release_lasts() {
    let mut spec = istio();
    let again = ("usher.dev/hold-again".to_owned(), "true".to_owned());
    spec.annotations.extend([again]);
    let mut stage = held(Mode::Enforce, spec);
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.request(Verb::Release);
    stage.released(0);
    stage.take_hold();
    stage.exit("i", 1);
    stage.start(PROXY, "i2");
    stage.exit("i2", 1);
    assert_eq!(stage.take_hold(), [""; 0]);
}

#[test]
fn waiting_starts_are_released() {
    let mut spec = istio();
    let start = ("usher.dev/hold".to_owned(), "start".to_owned());
    spec.annotations.extend([start]);
    // Init containers still run.
    spec.init_containers = vec!["setup".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    let output = stage.take_hold();
    assert!(
        output.contains(&"starts [app 30s]".to_owned()),
        "{output:?}"
    );
    taken(stage.request(Verb::Release));
    assert_eq!(stage.take_hold(), ["forget", "starts []"]);
    let mut stage = held(Mode::Observe, istio());
    stage.hold();
    let counted = stage.request(Verb::Release);
    assert_eq!(
        counted,
        Answer::Nothing("nothing is held in observe mode".to_owned())
    );
}

#[test]
fn modified_rules_are_repaired() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    stage.start("app", "a");
    stage.take_hold();
    stage.now = stage.now + seconds(10);
    let table = stage.engine.table(stage.now, &uid()).unwrap();
    assert_eq!(table.ports[0].timeout, seconds(20));
    let repaired = taken(stage.request(Verb::Repair));
    assert_eq!(repaired.ports, [15001]);
    let message = "installs the table again; connections to :15001 stay held";
    assert_eq!(repaired.message, message);
    assert_eq!(stage.take_hold(), ["repair 15001 20s"]);
    // A repair is rejected while the ports are being released.
    stage.request(Verb::Release);
    assert_eq!(refused(stage.request(Verb::Repair)), Refused::Busy);
    // No table is wanted, so the agent reads the existing one.
    let mut stage = started(Mode::Enforce, istio());
    assert_eq!(stage.engine.table(stage.now, &uid()), None);
    let message = taken(stage.request(Verb::Repair)).message;
    assert!(message.starts_with("no table is expected"), "{message}");
    assert_eq!(stage.take_hold(), ["look"]);
}

#[test]
fn a_request_for_an_unlisted_pod_is_refused() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    for verb in [Verb::Hold, Verb::Release, Verb::Repair] {
        let why = refused(stage.request(verb));
        assert_eq!(why, Refused::Unknown(WaitReason::Unlisted), "{verb:?}");
    }
}
