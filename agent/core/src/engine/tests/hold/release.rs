//! When held ports are released, and when they stay held.

use super::super::hold::*;

#[test]
fn reasons_to_release_before_the_sidecar_is_ready() {
    type Change = fn(&mut Stage);
    let cases: [(&str, Change); 6] = [
        ("being deleted", |stage| {
            stage.spec.deleting = true;
            stage.list();
        }),
        ("no longer request the hold", |stage| {
            let opt_out = [("usher.dev/hold".to_owned(), "false".to_owned())];
            stage.spec.annotations = opt_out.into();
            stage.list();
        }),
        ("no longer request the hold", |stage| {
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
        stage.hold();
        stage.start("app", "a");
        stage.start(PROXY, "i");
        stage.take_hold();
        change(&mut stage);
        assert_eq!(stage.take_hold(), ["release all"], "{reason}");
        stage.released(0);
        let output = stage.take_hold();
        assert!(
            output[0].contains(reason) && output[1] == "forget",
            "{output:?}"
        );
    }
}

#[test]
fn ports_on_loopback_open_one_by_one() {
    let mut spec = istio();
    spec.containers[1] = container("cloud-sql-proxy");
    spec.containers[1].image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0".to_owned();
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(
        stage.take_hold(),
        ["arm 5432 30s, 3306 30s, 1433 30s, users []"]
    );
    stage.armed();
    stage.start("app", "a");
    stage.take_hold();
    stage.start("cloud-sql-proxy", "c");
    assert!(stage.take_hold()[0].starts_with("watch [Listens { port: 1433 }, "));
    stage.probed(Probe::Listens { port: 5432 });
    assert_eq!(stage.take_hold(), ["release 5432"]);
    // The other ports are of engines that this instance does not have.
    stage.pass(Duration::from_millis(999));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(Duration::from_millis(2));
    assert_eq!(stage.take_hold(), ["release all"]);
    let two = ["proj:eu:a?port=5433", "proj:eu:b?port=5434&x=1"];
    stage.spec.containers[1].words = two.map(str::to_owned).to_vec();
    let mut stage = held(Mode::Enforce, stage.spec);
    stage.announce();
    assert_eq!(stage.take_hold()[0], "arm 5433 30s, 5434 30s, users []");
}

#[test]
fn two_sidecars_open_apart() {
    let mut stage = held(Mode::Enforce, two_sidecars());
    stage.announce();
    assert_eq!(
        stage.take_hold(),
        ["arm 15001 30s, 3500 30s, 50001 30s, users [1337]"]
    );
    stage.armed();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.start("daprd", "d");
    stage.take_hold();
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release 15001"]);
    stage.probed(Probe::Listens { port: 3500 });
    assert_eq!(stage.take_hold(), ["release 3500"]);
    stage.probed(Probe::Listens { port: 50001 });
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn observe_mode_counts() {
    let mut stage = held(Mode::Observe, istio());
    stage.announce();
    assert_eq!(stage.take_hold(), [format!("{ARM}, count")]);
    stage.armed();
    assert_eq!(
        stage.take_hold(),
        ["answer NotHeld: observe mode: its connections are counted"]
    );
    stage.start("app", "a");
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [WATCH]);
    stage.pass(Duration::from_millis(200));
    stage.probed(ready());
    stage.released(3);
    let output = stage.take_hold();
    assert_eq!(output[0], "release all");
    assert!(
        output[1].starts_with("would-hold: observe mode: nothing is held"),
        "{output:?}"
    );
    assert!(
        output[1].contains("3 connections were refused, the first 240 ms before"),
        "{output:?}"
    );
    let costs = stage.engine.costs(stage.now);
    assert_eq!(costs[0].refused_connections, 3);
}

#[test]
fn declared_ports_count_for_any_container() {
    let mut spec = istio();
    spec.containers[1] = container("cache");
    let declared = "cache=6379".to_owned();
    spec.annotations = [("usher.dev/hold-ports".to_owned(), declared)].into();
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.take_hold(), ["arm 6379 30s, users []"]);
}

#[test]
fn captured_queries_wait_as_well() {
    let mut spec = istio();
    let dns = [("ISTIO_META_DNS_CAPTURE".to_owned(), "true".to_owned())];
    spec.containers[1].env = BTreeMap::from(dns);
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    let arm = "arm 15001 30s, 15053 30s, users [1337], dns Compat";
    assert_eq!(stage.take_hold(), [arm]);
    stage.send(Event::Kernel(Features {
        hold: Ok(()),
        dns: None,
        start: Ok(()),
    }));
    stage.armed();
    assert!(
        stage.take_hold()[1]
            .ends_with("DNS queries are not: the node's kernel has neither queue nor NFQUEUE")
    );
}

#[test]
fn the_release_counts_from_its_own_time() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.pass(Duration::from_millis(120));
    stage.probed(ready());
    stage.take_hold();
    stage.tallied(Tally {
        ago: Duration::from_millis(20),
        ..Tally::default()
    });
    assert!(stage.take_hold()[0].contains("100 ms after the hold began"));
}

#[test]
fn reported_version_selects_another_probe() {
    let mut spec = istio();
    spec.containers[1].image = "istio/proxyv2:latest".to_owned();
    let mut stage = held(Mode::Enforce, spec);
    stage.mode(Mode::Enforce);
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [WATCH]);
    stage.pass(seconds(1));
    let key = stage.version_queries[0].clone();
    let version = Some("1.5.9".to_owned());
    stage.send(Event::VersionAnswered { key, version });
    let port = 15020;
    let path = "/healthz/ready".to_owned();
    assert_eq!(
        stage.take_hold(),
        ["watch [Answers { port: 15020, path: \"/healthz/ready\" }]"]
    );
    stage.probed(Probe::Answers { port, path });
    assert_eq!(stage.take_hold(), ["release all"]);
}
