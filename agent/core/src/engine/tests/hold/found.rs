//! Holds of an earlier agent, and pods that were not announced.

use super::super::hold::*;

pub(super) fn find(stage: &mut Stage, run: &str, remains: Option<Remains>) {
    let key = key(run);
    let sandbox = SandboxId::parse(key.id.as_str()).unwrap();
    stage.send(Event::Found {
        key,
        sandbox,
        remains,
    });
}

/// The hold of an earlier agent, with this remaining time.
pub(super) fn remains(time: Duration) -> Option<Remains> {
    Some(Remains {
        ports: vec![(15001, time)],
        count_only: false,
        queries: false,
    })
}

#[test]
fn table_is_found_by_a_later_container_if_the_first_one_has_exited() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), ["look"]);
    stage.send(Event::NotFound { key: key("a") });
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), ["look"]);
    find(&mut stage, "i", remains(seconds(12)));
    stage.list();
    assert!(stage.take_hold()[0].starts_with("hold-adopted"));
}

#[test]
fn tables_of_an_earlier_agent_are_adopted_or_removed() {
    let remains = || remains(seconds(12));
    let restarted = |mode| {
        let mut stage = bare(mode, istio());
        stage.send(Event::PodAppeared(uid()));
        stage.start("app", "a");
        assert_eq!(stage.take_hold(), ["look"]);
        stage.start(PROXY, "i");
        assert_eq!(stage.take_hold(), [""; 0]);
        stage
    };
    let found = "hold-adopted: an earlier agent holds connections to :15001; they stay held as long as the pod requests it";
    let mut stage = restarted(Mode::Enforce);
    find(&mut stage, "a", remains());
    assert_eq!(stage.take_hold(), [""; 0]);
    // The adoption is reported once the name of the pod is known.
    stage.list();
    assert_eq!(stage.take_hold(), [found, WATCH]);
    stage.pass(seconds(13));
    assert_eq!(stage.take_hold(), ["release all"]);
    // The length of the hold before this agent is unknown.
    stage.send(Event::Released {
        sandbox: SandboxId::parse(key("a").id.as_str()).unwrap(),
        result: Ok(Tally::default()),
    });
    let output = stage.take_hold();
    assert!(
        output[0].contains("13.0 s after this agent adopted the hold"),
        "{output:?}"
    );
    // The current mode requests no hold.
    let mut stage = restarted(Mode::Off);
    stage.list();
    find(&mut stage, "a", remains());
    assert_eq!(stage.take_hold(), [found, "release all"]);
    // The earlier agent left no hold, and the app runs.
    let mut stage = restarted(Mode::Enforce);
    stage.list();
    find(&mut stage, "a", None);
    assert_eq!(
        stage.take_hold(),
        [
            "not-held: the pod's apps had started before their connections could be held",
            "forget"
        ]
    );
}

#[test]
fn pod_whose_init_containers_outlived_the_agent_is_held() {
    let mut spec = istio();
    spec.init_containers = vec!["istio-init".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.start("istio-init", "k");
    assert_eq!(stage.take_hold(), ["look"]);
    find(&mut stage, "k", None);
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.exit("k", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

/// The first one ended before the agent started.
#[test]
fn pod_whose_last_init_container_outlived_the_agent_is_held() {
    let mut spec = istio();
    spec.init_containers = vec!["istio-validation".to_owned(), "migrate".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.start("migrate", "k");
    find(&mut stage, "k", None);
    assert_eq!(stage.take_hold(), ["look"]);
    stage.exit("k", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

/// It held no connection.
#[test]
fn table_that_only_counts_is_not_reported_as_a_hold() {
    let mut stage = bare(Mode::Observe, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.start(PROXY, "i");
    let counts = Remains {
        count_only: true,
        ..remains(seconds(12)).unwrap()
    };
    find(&mut stage, "i", Some(counts));
    stage.list();
    let output = stage.take_hold();
    let reported = |line: &String| line.starts_with("hold-adopted");
    assert!(!output.iter().any(reported), "{output:?}");
}

#[test]
fn pod_is_late_when_an_app_has_started() {
    let late = [
        "not-held: the pod's apps had started before their connections could be held",
        "forget",
    ];
    for (container, expected) in [(PROXY, &[ARM][..]), ("app", &late)] {
        let mut stage = held(Mode::Enforce, istio());
        stage.start(container, "c");
        assert_eq!(stage.take_hold(), ["look"]);
        find(&mut stage, "c", None);
        assert_eq!(stage.take_hold(), expected, "{container}");
    }
}

#[test]
fn sandbox_that_was_announced_counts_before_one_that_is_found() {
    let mut stage = held(Mode::Enforce, istio());
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM]);
    find(&mut stage, "i", None);
    assert_eq!(stage.take_hold(), ["forget"]);
    stage.armed();
    assert_eq!(stage.take_hold()[0], "answer Held");
}

/// The run whose container has the id of the announced sandbox: the pause process, where it exists before ADD.
pub(super) fn pause() -> String {
    let run = "Z".repeat(32);
    assert_eq!(key(&run).id.as_str(), sandbox().as_str());
    run
}

#[test]
fn sandbox_that_was_announced_while_it_was_inspected_is_held() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM]);
    find(&mut stage, &pause(), None);
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.armed();
    assert_eq!(stage.take_hold(), ["answer Held", ARMED]);
    // The kubelet lists the pod after both.
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.announce_as(None);
    find(&mut stage, &pause(), None);
    stage.list();
    assert_eq!(stage.take_hold(), [ARM]);
    stage.armed();
    assert_eq!(stage.take_hold(), ["answer Held", ARMED]);
}

#[test]
fn sandbox_that_was_found_before_its_announcement_gets_a_reply() {
    let mut stage = held(Mode::Enforce, istio());
    find(&mut stage, &pause(), None);
    assert_eq!(stage.take_hold(), [ARM]);
    stage.announce();
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.armed();
    assert_eq!(stage.take_hold(), ["answer Held", ARMED]);
    // The table is installed.
    let mut stage = held(Mode::Enforce, istio());
    find(&mut stage, &pause(), None);
    stage.armed();
    assert_eq!(stage.take_hold(), [ARM, ARMED]);
    stage.announce();
    assert_eq!(stage.take_hold(), ["answer Held"]);
    // The hold is over: no descriptor is kept.
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.released(0);
    assert_eq!(stage.take_hold().last().unwrap(), "forget");
    stage.announce();
    assert_eq!(stage.take_hold(), ["answer Held", "forget"]);
    // It was over before the first announcement.
    let mut stage = held(Mode::Enforce, istio());
    stage.start("app", "a");
    find(&mut stage, &pause(), None);
    stage.take_hold();
    stage.announce();
    let released = "answer NotHeld: its connections are released";
    assert_eq!(stage.take_hold(), [released, "forget"]);
    // Its init containers run.
    let mut spec = istio();
    spec.init_containers = vec!["migrate".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    find(&mut stage, &pause(), None);
    stage.announce();
    let later = "answer NotHeld: its connections wait when its init containers have ended";
    assert_eq!(stage.take_hold(), [later]);
}

#[test]
fn adopted_hold_that_is_announced_is_reported() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    find(&mut stage, &pause(), remains(seconds(12)));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.announce();
    let output = stage.take_hold();
    assert!(output[0].starts_with("hold-adopted: "), "{output:?}");
    assert_eq!(output[1..], ["answer Held"]);
}
