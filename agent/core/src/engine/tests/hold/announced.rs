//! From the announcement of a sandbox to its held connections, or to the reason that there are none.

use super::super::hold::*;
use crate::base::id::{ContainerId, ContainerKey};
use crate::pod::container_change::ContainerChange;

#[test]
fn from_add_to_ready() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM]);
    stage.armed();
    assert_eq!(stage.take_hold(), ["answer Held", ARMED]);
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [WATCH]);
    stage.pass(Duration::from_millis(300));
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all"]);
    stage.released(1);
    let released = "hold-released: the sidecar is ready, 300 ms after the hold began; 1 connection had waited, 240 ms";
    assert_eq!(stage.take_hold(), [released, "forget"]);
    // Restarts do not start another hold.
    stage.exit("i", 1);
    stage.start(PROXY, "j");
    stage.pass(seconds(60));
    assert_eq!(stage.take_hold(), [""; 0]);
}

#[test]
fn pods_whose_connections_wait_are_counted() {
    for (mode, count) in [(Mode::Enforce, 1), (Mode::Observe, 0)] {
        let mut stage = held(mode, istio());
        let counted = |stage: &Stage| stage.engine.census().held;
        assert_eq!(counted(&stage), 0, "{mode:?}");
        stage.announce();
        assert_eq!(counted(&stage), count, "{mode:?}");
        stage.armed();
        assert_eq!(counted(&stage), count, "{mode:?}");
        stage.start("app", "a");
        stage.start(PROXY, "i");
        stage.probed(ready());
        assert_eq!(counted(&stage), count, "{mode:?}");
        stage.released(0);
        assert_eq!(counted(&stage), 0, "{mode:?}");
    }
}

#[test]
fn sandbox_of_a_pod_that_is_not_listed_yet_waits_for_the_list() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.announce();
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.list();
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn sandbox_without_a_uid_is_placed_by_name() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.announce_as(None);
    // A list that is older than the pod.
    stage.answer_with(Vec::new());
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.list();
    assert_eq!(stage.take_hold(), [ARM]);
    let mut stage = bare(Mode::Enforce, istio());
    stage.spec.name = "another".to_owned();
    stage.announce_as(None);
    stage.list();
    stage.pass(seconds(6));
    stage.list();
    let answer = "answer NotHeld: the kubelet lists no such pod";
    assert_eq!(stage.take_hold(), [answer, "forget"]);
}

#[test]
fn a_sandbox_whose_pod_is_not_listed_waits_for_it_five_seconds() {
    let turned_away = ["answer NotHeld: the kubelet lists no such pod", "forget"];
    let mut stage = bare(Mode::Enforce, istio());
    let announced = stage.now;
    stage.announce_as(None);
    for (millis, expected) in [(4_999, &[][..]), (5_000, &turned_away)] {
        stage.now = announced + Duration::from_millis(millis - 1);
        // The reply takes one millisecond.
        stage.answer_with(Vec::new());
        assert_eq!(stage.take_hold(), expected, "{millis} ms");
    }
    // Beyond the limit of pending announcements the oldest one is dropped.
    for _ in 0..64 {
        stage.announce_as(None);
        assert_eq!(stage.take_hold(), [""; 0]);
    }
    stage.announce_as(None);
    assert_eq!(stage.take_hold(), turned_away);
}

/// The plugin does not wait for retries. The pod is held from the first reply on, unless its apps have started by then.
#[test]
fn unreadable_namespace_delays_no_add() {
    let unread =
        "answer NotHeld: its Namespace cannot be read; its connections wait once it has been read";
    for (app_starts, expected) in [
        (false, vec![ARM]),
        (
            true,
            vec![
                "not-held: the pod's apps had started before its Namespace could be read",
                "forget",
            ],
        ),
    ] {
        let mut stage = bare(Mode::Enforce, istio());
        let values = stage.namespace.take();
        stage.send(Event::PodAppeared(uid()));
        stage.list();
        stage.announce();
        assert_eq!(stage.take_hold(), [unread]);
        if app_starts {
            stage.start("app", "a");
        }
        assert_eq!(stage.take_hold(), [""; 0]);
        stage.namespace = values;
        stage.pass(seconds(2));
        assert_eq!(stage.take_hold(), expected);
    }
}

#[test]
fn init_containers_are_not_held() {
    let mut spec = istio();
    spec.init_containers = vec!["migrate".to_owned(), "istio-init".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    let later = "answer NotHeld: its connections wait when its init containers have ended";
    assert_eq!(stage.take_hold(), [later]);
    stage.start("migrate", "m");
    stage.exit("m", 1);
    stage.start("migrate", "n");
    stage.exit("n", 0);
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start("istio-init", "k");
    stage.exit("k", 0);
    assert_eq!(stage.take_hold(), [ARM]);
    stage.armed();
    assert_eq!(stage.take_hold(), [ARMED]);
    // The kubelet runs init containers again in the same sandbox. This was never observed, and must not cause a
    // deadlock.
    stage.start("istio-init", "l");
    assert_eq!(stage.take_hold(), ["release all"]);
    stage.released(0);
    stage.take_hold();
    stage.exit("l", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn an_init_container_without_a_name_counts_as_completed() {
    let mut spec = istio();
    spec.init_containers = vec!["istio-init".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    stage.take_hold();
    stage.appear("k");
    stage.exit("k", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn first_regular_container_completes_the_init_containers() {
    let mut spec = istio();
    spec.init_containers = vec!["a".to_owned(), "b".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    stage.take_hold();
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn pods_that_are_never_held() {
    type Change = fn(&mut Pod);
    let cases: [(&str, Change); 7] = [
        ("host's network namespace", |pod| pod.host_network = true),
        ("no recipe recognizes", |pod| {
            pod.containers.pop();
        }),
        ("native ones", |pod| {
            pod.containers.pop();
            pod.native_sidecars = vec![PROXY.to_owned()];
        }),
        ("sidecars only", |pod| {
            pod.containers.remove(0);
        }),
        ("is \"false\"", |pod| {
            let opt_out = [("usher.dev/hold".to_owned(), "false".to_owned())];
            pod.annotations = opt_out.into();
        }),
        ("no recipe knows a port", |pod| {
            pod.containers[1].name = "fluent-bit".to_owned();
            pod.containers[1].image = "fluent/fluent-bit:3".to_owned();
        }),
        ("is being deleted", |pod| pod.deleting = true),
    ];
    for (reason, change) in cases {
        let mut spec = istio();
        change(&mut spec);
        let mut stage = held(Mode::Enforce, spec);
        stage.announce();
        let output = stage.take_hold();
        assert!(
            output[0].starts_with("answer NotHeld: ") && output[0].contains(reason),
            "{output:?}"
        );
        assert!(
            output[1].starts_with("not-held: ") && output[2] == "forget",
            "{output:?}"
        );
    }
    let mut stage = held(Mode::Off, istio());
    stage.announce();
    assert!(stage.take_hold()[0].contains("hold on this node is off"));
    let mut stage = held(Mode::Enforce, istio());
    let hold = Err("no nf_tables".to_owned());
    stage.send(Event::Kernel(Features {
        hold,
        dns: None,
        start: Ok(()),
    }));
    stage.announce();
    assert!(stage.take_hold()[0].contains("cannot hold connections: no nf_tables"));
}

#[test]
fn sandbox_that_is_gone_is_forgotten_and_a_new_one_is_held() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    let own = ContainerKey {
        pod: uid(),
        id: ContainerId::parse(sandbox().as_str()).unwrap(),
    };
    stage.send(Event::container(own.clone(), ContainerChange::Appeared));
    stage.send(Event::container(
        own.clone(),
        ContainerChange::Started { name: None },
    ));
    stage.send(Event::container(own, ContainerChange::Exited));
    let output = stage.take_hold();
    assert!(
        output[0].starts_with("hold-released") && output[1] == "forget",
        "{output:?}"
    );
    // Late replies have no effect.
    stage.probed(ready());
    stage.released(0);
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM]);
    stage.send(Event::PodGone(uid()));
    assert_eq!(stage.take_hold(), ["forget"]);
}

/// An announced pod with a running init container.
fn migrating() -> Stage {
    let mut spec = istio();
    spec.init_containers = vec!["migrate".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    stage.take_hold();
    stage.start("migrate", "m");
    stage
}

#[test]
fn init_container_that_failed_has_not_ended() {
    let mut stage = migrating();
    // If the cgroup is removed early, the exit code precedes the exit.
    stage.send(exit_code("m", 1));
    stage.send(Event::container(key("m"), ContainerChange::Exited));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start("migrate", "n");
    stage.send(Event::container(key("n"), ContainerChange::Exited));
    stage.send(exit_code("n", 1));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start("migrate", "o");
    stage.exit("o", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

fn exit_code(run: &str, code: u8) -> Event {
    let status = crate::pod::exit_status::ExitStatus::Code(code);
    Event::container(key(run), ContainerChange::ExitStatus(status))
}

#[test]
fn init_container_with_an_unknown_exit_code_has_ended() {
    for change in [ContainerChange::NoExitStatus, ContainerChange::Gone] {
        let mut stage = migrating();
        stage.send(Event::container(key("m"), ContainerChange::Exited));
        assert_eq!(stage.take_hold(), [""; 0]);
        stage.send(Event::container(key("m"), change));
        assert_eq!(stage.take_hold(), [ARM]);
    }
}

/// Its end is found before the task that follows it reports it.
#[test]
fn init_container_whose_exit_is_reported_twice_has_ended_once() {
    let mut stage = migrating();
    stage.send(Event::container(key("m"), ContainerChange::Exited));
    stage.send(exit_code("m", 0));
    assert_eq!(stage.take_hold(), [ARM]);
    stage.send(Event::container(key("m"), ContainerChange::Exited));
    stage.armed();
    assert_eq!(stage.take_hold(), [ARMED]);
}

#[test]
fn init_container_killed_before_its_start_has_not_ended() {
    let mut stage = migrating();
    stage.send(Event::container(key("m"), ContainerChange::NotStarted));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start("migrate", "n");
    stage.exit("n", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn init_containers_of_the_sandbox_before_do_not_count() {
    let mut spec = istio();
    spec.init_containers = vec!["migrate".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.start("migrate", "m");
    stage.exit("m", 0);
    stage.take_hold();
    stage.announce();
    let later = "answer NotHeld: its connections wait when its init containers have ended";
    assert_eq!(stage.take_hold(), [later]);
    stage.start("migrate", "n");
    stage.exit("n", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn name_selects_the_only_pod_that_may_start() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    let mut other = istio();
    other.uid = crate::base::id::PodUid::parse(&"7".repeat(32)).unwrap();
    other.deleting = true;
    // An older pod of the same name, as of a StatefulSet, is still terminating.
    stage.answer_with(vec![istio(), other.clone()]);
    stage.announce_as(None);
    assert_eq!(stage.take_hold(), [ARM]);
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    other.deleting = false;
    stage.answer_with(vec![istio(), other]);
    stage.announce_as(None);
    assert_eq!(stage.take_hold(), [""; 0]);
}

#[test]
fn second_interface_receives_the_same_reply() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    stage.announce();
    assert_eq!(stage.take_hold(), ["answer Held"]);
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.released(0);
    stage.take_hold();
    stage.announce();
    assert_eq!(stage.take_hold(), ["answer Held", "forget"]);
}
