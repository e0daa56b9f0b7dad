//! When doors open, and when they stay shut.

use super::*;

/// A pod whose proxy is waited for whenever it is started again.
fn held_again() -> Pod {
    let mut spec = pod(RestartPolicy::Always, &["app"]);
    let again = [("usher.dev/hold-again".to_owned(), "true".to_owned())];
    spec.annotations = again.into();
    spec
}

/// Istio's proxy and Dapr's.
fn two_sidecars() -> Pod {
    let mut spec = istio();
    spec.containers.push(container("daprd"));
    spec.containers[2].image = "ghcr.io/dapr/daprd:1.14.0".to_owned();
    spec
}

#[test]
fn at_the_deadline_doors_open() {
    let mut stage = held(Mode::Enforce, istio());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.pass(seconds(29));
    assert_eq!(stage.said(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.said(), ["open all"]);
    stage.opened(2);
    let said = stage.said();
    assert!(
        said[0].starts_with("hold-opened: the deadline has come"),
        "{said:?}"
    );
    assert!(
        said[0].ends_with("2 connections had waited, the first 240 ms"),
        "{said:?}"
    );
}

#[test]
fn deadline_counts_from_the_first_app_s_start() {
    let mut stage = held(Mode::Enforce, istio());
    stage.shut();
    let renew = "renew 15001 30s";
    // Its image takes its time.
    stage.pass(seconds(14));
    assert_eq!(stage.said(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.said(), [renew]);
    stage.start(PROXY, "i");
    assert_eq!(stage.said(), [WATCH]);
    stage.pass(seconds(60));
    assert_eq!(stage.said(), [renew; 4]);
    stage.pass(seconds(5));
    stage.start("app", "a");
    assert_eq!(stage.said(), [renew]);
    stage.pass(seconds(29));
    stage.start("app", "b");
    assert_eq!(stage.said(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.said(), ["open all"]);
}

/// Its doors are to stay shut after five seconds.
fn closed() -> Stage {
    let mut spec = istio();
    let annotations = [
        ("usher.dev/on-deadline".to_owned(), "closed".to_owned()),
        ("usher.dev/hold-deadline".to_owned(), "5s".to_owned()),
    ];
    spec.annotations = annotations.into();
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.said(), ["arm 15001 25s, users [1337]"]);
    stage.armed();
    stage
}

/// No app has begun; the agent may end at any time, and the kernel opens nothing before its lease is over.
#[test]
fn a_deadline_that_is_put_off_has_its_lease_again() {
    let mut stage = closed();
    stage.said();
    stage.pass(seconds(3));
    assert_eq!(stage.said(), ["renew 15001 25s"]);
}

#[test]
fn doors_that_are_to_stay_shut_stay_shut_by_lease() {
    let mut stage = closed();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.pass(seconds(16));
    let stays = "hold-stays-shut: the sidecar is not ready after 5s; connections wait on, as usher.dev/on-deadline asks";
    let renew = "renew 15001 20s";
    assert_eq!(stage.said(), [stays, renew, renew]);
    stage.probed(ready());
    assert_eq!(stage.said(), ["open all"]);
}

#[test]
fn what_opens_the_doors_before_the_sidecar_is_ready() {
    type Change = fn(&mut Stage);
    let cases: [(&str, Change); 6] = [
        ("being deleted", |stage| {
            stage.spec.deleting = true;
            stage.list();
        }),
        ("do not want it", |stage| {
            let opt_out = [("usher.dev/hold".to_owned(), "false".to_owned())];
            stage.spec.annotations = opt_out.into();
            stage.list();
        }),
        ("do not want it", |stage| {
            stage.hold_mode = Mode::Observe;
            stage.mode(Mode::Off);
        }),
        ("its apps have ended", |stage| stage.exit("a", 1)),
        ("the sidecar ended", |stage| stage.exit("i", 0)),
        ("its apps have ended", |stage| {
            stage.spec.terminal = Some("Evicted".to_owned());
            stage.list();
        }),
    ];
    for (reason, change) in cases {
        let mut stage = held(Mode::Enforce, istio());
        stage.shut();
        stage.start("app", "a");
        stage.start(PROXY, "i");
        stage.said();
        change(&mut stage);
        assert_eq!(stage.said(), ["open all"], "{reason}");
        stage.opened(0);
        let said = stage.said();
        assert!(said[0].contains(reason) && said[1] == "forget", "{said:?}");
    }
}

#[test]
fn sidecar_that_is_started_again_keeps_the_doors_shut() {
    let mut stage = held(Mode::Enforce, pod(RestartPolicy::OnFailure, &["app"]));
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.exit("i", 1);
    stage.start(PROXY, "j");
    stage.pass(seconds(5));
    assert_eq!(stage.said(), [""; 0]);
    stage.probed(ready());
    assert_eq!(stage.said(), ["open all"]);
}

#[test]
fn sidecar_that_was_killed_before_it_had_begun_keeps_the_doors_shut() {
    let mut stage = held(Mode::Enforce, istio());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.send(Event::ContainerNotStarted(key("i")));
    stage.send(Event::ContainerGone(key("i")));
    stage.pass(seconds(5));
    assert_eq!(stage.said(), [""; 0]);
    stage.start(PROXY, "j");
    stage.probed(ready());
    assert_eq!(stage.said(), ["open all"]);
}

#[test]
fn ports_on_loopback_open_one_by_one() {
    let mut spec = istio();
    spec.containers[1] = container("cloud-sql-proxy");
    spec.containers[1].image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0".to_owned();
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.said(), ["arm 5432 30s, 3306 30s, 1433 30s, users []"]);
    stage.armed();
    stage.start("app", "a");
    stage.said();
    stage.start("cloud-sql-proxy", "c");
    assert!(stage.said()[0].starts_with("watch [Listens { port: 1433 }, "));
    stage.probed(Probe::Listens { port: 5432 });
    assert_eq!(stage.said(), ["open 5432"]);
    // The others are of engines that it does not serve.
    stage.pass(Duration::from_millis(999));
    assert_eq!(stage.said(), [""; 0]);
    stage.pass(Duration::from_millis(2));
    assert_eq!(stage.said(), ["open all"]);
    let two = ["proj:eu:a?port=5433", "proj:eu:b?port=5434&x=1"];
    stage.spec.containers[1].words = two.map(str::to_owned).to_vec();
    let mut stage = held(Mode::Enforce, stage.spec);
    stage.announce();
    assert_eq!(
        stage.said()[0],
        "arm 5433 30s, 5434 30s, 3306 30s, 1433 30s, users []"
    );
}

#[test]
fn two_sidecars_open_apart() {
    let mut stage = held(Mode::Enforce, two_sidecars());
    stage.announce();
    assert_eq!(
        stage.said(),
        ["arm 15001 30s, 3500 30s, 50001 30s, users [1337]"]
    );
    stage.armed();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.start("daprd", "d");
    stage.said();
    stage.probed(ready());
    assert_eq!(stage.said(), ["open 15001"]);
    stage.probed(Probe::Listens { port: 3500 });
    assert_eq!(stage.said(), ["open 3500"]);
    stage.probed(Probe::Listens { port: 50001 });
    assert_eq!(stage.said(), ["open all"]);
}

#[test]
fn restarted_proxy_is_waited_for_where_that_is_asked_for() {
    let mut stage = held(Mode::Enforce, held_again());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.opened(0);
    // The namespace stays open for the next time.
    assert!(!stage.said().contains(&"forget".to_owned()));
    stage.exit("i", 1);
    assert_eq!(stage.said(), [ARM]);
    stage.armed();
    stage.said();
    stage.start(PROXY, "j");
    assert_eq!(stage.said(), [WATCH]);
    stage.probed(ready());
    assert_eq!(stage.said(), ["open all"]);
}

#[test]
fn observe_mode_counts() {
    let mut stage = held(Mode::Observe, istio());
    stage.announce();
    assert_eq!(stage.said(), [format!("{ARM}, count")]);
    stage.armed();
    assert_eq!(
        stage.said(),
        ["answer Open: observe mode: its connections are counted"]
    );
    stage.start("app", "a");
    stage.start(PROXY, "i");
    assert_eq!(stage.said(), [WATCH]);
    stage.pass(Duration::from_millis(200));
    stage.probed(ready());
    stage.opened(3);
    let said = stage.said();
    assert_eq!(said[0], "open all");
    assert!(
        said[1].starts_with("would-hold: observe mode: nothing is held"),
        "{said:?}"
    );
    assert!(
        said[1].contains("3 connections were refused, the first 240 ms before"),
        "{said:?}"
    );
}

#[test]
fn declared_ports_count_for_any_container() {
    let mut spec = istio();
    spec.containers[1] = container("cache");
    let declared = "cache=6379".to_owned();
    spec.annotations = [("usher.dev/hold-ports".to_owned(), declared)].into();
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.said(), ["arm 6379 30s, users []"]);
}

#[test]
fn captured_queries_wait_as_well() {
    let mut spec = istio();
    let dns = [("ISTIO_META_DNS_CAPTURE".to_owned(), "true".to_owned())];
    spec.containers[1].env = BTreeMap::from(dns);
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    let arm = "arm 15001 30s, 15053 30s, users [1337], dns Compat";
    assert_eq!(stage.said(), [arm]);
    stage.send(Event::Kernel(Features {
        hold: Ok(()),
        dns: None,
        start: Ok(()),
    }));
    stage.armed();
    assert!(
        stage.said()[1]
            .ends_with("DNS queries do not wait: the node's kernel has neither queue nor NFQUEUE")
    );
}

#[test]
fn what_only_counts_ends_when_it_is_to_hold_and_at_its_deadline() {
    let mut stage = held(Mode::Observe, istio());
    stage.shut();
    stage.hold_mode = Mode::Enforce;
    stage.mode(Mode::Off);
    assert_eq!(stage.said(), ["open all"]);
    let mut spec = istio();
    let closed = [("usher.dev/on-deadline".to_owned(), "closed".to_owned())];
    spec.annotations = closed.into();
    let mut stage = held(Mode::Observe, spec);
    stage.shut();
    stage.pass(seconds(31));
    assert_eq!(stage.said(), ["open all"]);
}

#[test]
fn restarted_proxy_is_not_waited_for_in_observe_mode() {
    let mut stage = held(Mode::Observe, held_again());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.opened(0);
    assert!(stage.said().contains(&"forget".to_owned()));
    stage.exit("i", 1);
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn proxy_that_was_dead_at_the_deadline_is_not_waited_for_again_at_once() {
    let mut stage = held(Mode::Enforce, held_again());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.exit("i", 1);
    stage.said();
    stage.pass(seconds(31));
    assert_eq!(stage.said(), ["open all"]);
    stage.opened(1);
    assert!(!stage.said().contains(&ARM.to_owned()));
    stage.start(PROXY, "j");
    assert_eq!(stage.said(), [""; 0]);
    stage.exit("j", 1);
    assert_eq!(stage.said(), [ARM]);
}

#[test]
fn what_counts_is_when_the_doors_opened_not_when_it_was_told() {
    let mut stage = held(Mode::Enforce, istio());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.pass(Duration::from_millis(120));
    stage.probed(ready());
    stage.said();
    stage.send(Event::Opened {
        sandbox: sandbox(),
        result: Ok(Tally {
            ago: Duration::from_millis(20),
            ..Tally::default()
        }),
    });
    assert!(stage.said()[0].contains("100 ms after it was armed"));
}

#[test]
fn deadline_of_one_sidecar_comes_also_when_another_is_ready() {
    let mut stage = held(Mode::Enforce, two_sidecars());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.start("daprd", "d");
    stage.probed(Probe::Listens { port: 3500 });
    stage.probed(Probe::Listens { port: 50001 });
    stage.said();
    stage.pass(seconds(31));
    assert_eq!(stage.said(), ["open all"]);
}

#[test]
fn another_probe_is_watched_when_the_sidecar_tells_its_version() {
    let mut spec = istio();
    spec.containers[1].image = "istio/proxyv2:latest".to_owned();
    let mut stage = held(Mode::Enforce, spec);
    stage.mode(Mode::Enforce);
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    assert_eq!(stage.said(), [WATCH]);
    stage.pass(seconds(1));
    let key = stage.questions[0].clone();
    let body = "{\"node\":{\"metadata\":{\"ISTIO_VERSION\":\"1.5.9\"}}}";
    let body = Some(body.to_owned());
    stage.send(Event::VersionAnswered { key, body });
    let port = 15020;
    let path = "/healthz/ready".to_owned();
    assert_eq!(
        stage.said(),
        ["watch [Answers { port: 15020, path: \"/healthz/ready\" }]"]
    );
    stage.probed(Probe::Answers { port, path });
    assert_eq!(stage.said(), ["open all"]);
}
