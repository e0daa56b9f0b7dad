//! Scenes of connections that wait.

mod property;

use std::{collections::BTreeMap, time::Duration};

use super::stage::{PROXY, Stage, container, key, pod, uid};
use crate::{
    Action, Event,
    cni::{PodName, Request},
    decision::Kind,
    hold::{Features, Probe, Remains, Tally},
    id::SandboxId,
    mode::Mode,
    pod::Pod,
    policy::RestartPolicy,
    ruleset::Queue,
};

/// What an action does about connections, or says of them.
pub(super) fn line(action: &Action) -> Option<String> {
    let numbers = |ports: &[u16]| {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        ports.join(" ")
    };
    Some(match action {
        Action::Answer { reply, .. } => {
            let reason = reply.reason.as_ref().map(|reason| format!(": {reason}"));
            format!("answer {:?}{}", reply.outcome, reason.unwrap_or_default())
        }
        Action::Arm { wanted, .. } => {
            let doors = wanted.ports.iter();
            let doors: Vec<String> = doors
                .map(|door| format!("{} {:?}", door.port, door.timeout))
                .collect();
            let dns = wanted.dns.map(|dns| format!(", dns {dns:?}"));
            let count = if wanted.count_only { ", count" } else { "" };
            format!(
                "arm {}, users {:?}{}{count}",
                doors.join(", "),
                wanted.exempt_uids,
                dns.unwrap_or_default()
            )
        }
        Action::Watch { probes, .. } => format!("watch {probes:?}"),
        Action::OpenSome { ports, .. } => format!("open {}", numbers(ports)),
        Action::OpenAll { .. } => "open all".to_owned(),
        Action::Renew { ports, timeout, .. } => {
            format!("renew {} {timeout:?}", numbers(ports))
        }
        Action::Forget { .. } => "forget".to_owned(),
        Action::Look { .. } => "look".to_owned(),
        Action::Report(decision) => match &decision.kind {
            kind @ (Kind::NotHeld(_)
            | Kind::HoldArmed { .. }
            | Kind::HoldOpened { .. }
            | Kind::HoldFailed { .. }
            | Kind::HoldStaysShut { .. }
            | Kind::HoldFound { .. }
            | Kind::WouldHold { .. }) => format!("{}: {}", kind.as_str(), kind.reason()),
            _ => return None,
        },
        _ => return None,
    })
}

const WATCH: &str = "watch [Answers { port: 15021, path: \"/healthz/ready\" }]";
const ARMED: &str = "hold-armed: connections wait for istio-proxy :15001, for at most 30s";
const ARM: &str = "arm 15001 30s, users [1337]";

fn sandbox() -> SandboxId {
    SandboxId::parse(&"5a".repeat(32)).unwrap()
}

fn ready() -> Probe {
    Probe::Answers {
        port: 15021,
        path: "/healthz/ready".to_owned(),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod of a node where connections are held, which the kubelet has listed.
fn held(mode: Mode, spec: Pod) -> Stage {
    let mut stage = bare(mode, spec);
    stage.send(Event::PodAppeared(uid()));
    stage.list();
    stage
}

fn bare(mode: Mode, spec: Pod) -> Stage {
    let mut stage = Stage::new(Mode::Off, spec);
    stage.hold_mode = mode;
    stage.mode(Mode::Off);
    stage.send(Event::Kernel(Features {
        hold: Ok(()),
        dns: Some(Queue::Compat),
    }));
    stage
}

impl Stage {
    fn announce(&mut self) {
        self.announce_as(Some(uid()));
    }

    fn announce_as(&mut self, uid: Option<crate::id::PodUid>) {
        self.send(Event::Sandbox(Request {
            pod: PodName {
                namespace: "shop".to_owned(),
                name: "report".to_owned(),
                uid,
            },
            sandbox: sandbox(),
            interface: "eth0".to_owned(),
        }));
    }

    fn armed(&mut self) {
        let sandbox = sandbox();
        let result = Ok(());
        self.send(Event::Armed { sandbox, result });
    }

    fn probed(&mut self, probe: Probe) {
        let sandbox = sandbox();
        self.send(Event::Ready { sandbox, probe });
    }

    fn opened(&mut self, connections: usize) {
        self.send(Event::Opened {
            sandbox: sandbox(),
            tally: Tally {
                connections,
                longest: Duration::from_millis(240),
                ..Tally::default()
            },
        });
    }

    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.hold)
    }

    /// Announced and armed.
    fn shut(&mut self) {
        self.announce();
        self.armed();
        self.said();
    }
}

fn istio() -> Pod {
    pod(RestartPolicy::Never, &["app"])
}

#[test]
fn from_add_to_ready() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    assert_eq!(stage.said(), [ARM]);
    stage.armed();
    assert_eq!(stage.said(), ["answer Held", ARMED]);
    stage.start("app", "a");
    assert_eq!(stage.said(), [""; 0]);
    stage.start(PROXY, "i");
    assert_eq!(stage.said(), [WATCH]);
    stage.pass(Duration::from_millis(300));
    stage.probed(ready());
    assert_eq!(stage.said(), ["open all"]);
    stage.opened(1);
    let opened = "hold-opened: the sidecar is ready, 300 ms after it was armed; 1 connection had waited, 240 ms";
    assert_eq!(stage.said(), [opened, "forget"]);
    // It stays so, whatever restarts.
    stage.exit("i", 1);
    stage.start(PROXY, "j");
    stage.pass(seconds(60));
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn sandbox_of_a_pod_that_is_not_listed_yet_waits_for_the_list() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.announce();
    assert_eq!(stage.said(), [""; 0]);
    stage.list();
    assert_eq!(stage.said(), [ARM]);
}

#[test]
fn sandbox_without_a_uid_is_placed_by_name() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.announce_as(None);
    assert_eq!(stage.said(), [""; 0]);
    stage.list();
    assert_eq!(stage.said(), [ARM]);
    let mut stage = bare(Mode::Enforce, istio());
    stage.spec.name = "another".to_owned();
    stage.announce_as(None);
    stage.list();
    stage.pass(seconds(6));
    stage.list();
    let answer = "answer Open: the kubelet lists no such pod";
    assert_eq!(stage.said(), [answer, "forget"]);
}

#[test]
fn init_containers_are_not_held() {
    let mut spec = istio();
    spec.init_containers = vec!["migrate".to_owned(), "istio-init".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    let later = "answer Open: its connections wait when its init containers have ended";
    assert_eq!(stage.said(), [later]);
    stage.start("migrate", "m");
    stage.exit("m", 1);
    stage.start("migrate", "n");
    stage.exit("n", 0);
    assert_eq!(stage.said(), [""; 0]);
    stage.start("istio-init", "k");
    stage.exit("k", 0);
    assert_eq!(stage.said(), [ARM]);
    stage.armed();
    assert_eq!(stage.said(), [ARMED]);
    // The kubelet runs them again where the sandbox stays: never seen, and no
    // deadlock if so.
    stage.start("istio-init", "l");
    assert_eq!(stage.said(), ["open all"]);
    stage.opened(0);
    stage.said();
    stage.exit("l", 0);
    assert_eq!(stage.said(), [ARM]);
}

#[test]
fn init_container_that_nobody_could_name_has_ended() {
    let mut spec = istio();
    spec.init_containers = vec!["istio-init".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    stage.said();
    stage.appear("k");
    stage.exit("k", 0);
    assert_eq!(stage.said(), [ARM]);
}

#[test]
fn first_regular_container_says_that_init_containers_are_over() {
    let mut spec = istio();
    spec.init_containers = vec!["a".to_owned(), "b".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    stage.said();
    stage.start("app", "a");
    assert_eq!(stage.said(), [ARM]);
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
fn doors_that_are_to_stay_shut_stay_shut_by_lease() {
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
fn sandbox_that_is_gone_is_forgotten_and_a_new_one_is_held() {
    let mut stage = held(Mode::Enforce, istio());
    stage.shut();
    let own = crate::event::ContainerKey {
        pod: uid(),
        id: crate::id::ContainerId::parse(sandbox().as_str()).unwrap(),
    };
    stage.send(Event::ContainerAppeared(own.clone()));
    stage.send(Event::ContainerStarted {
        key: own.clone(),
        name: None,
    });
    stage.send(Event::ContainerExited(own));
    let said = stage.said();
    assert!(
        said[0].starts_with("hold-opened") && said[1] == "forget",
        "{said:?}"
    );
    // Late answers are about nothing any more.
    stage.probed(ready());
    stage.opened(0);
    assert_eq!(stage.said(), [""; 0]);
    stage.announce();
    assert_eq!(stage.said(), [ARM]);
    stage.send(Event::PodGone(uid()));
    assert_eq!(stage.said(), ["forget"]);
}

#[test]
fn what_is_never_held() {
    type Change = fn(&mut Pod);
    let cases: [(&str, Change); 7] = [
        ("is the node's", |pod| pod.host_network = true),
        ("no recipe recognises", |pod| {
            pod.containers.pop();
        }),
        ("native ones", |pod| {
            pod.containers.pop();
            pod.native_sidecars = vec![PROXY.to_owned()];
        }),
        ("sidecars only", |pod| {
            pod.containers.remove(0);
        }),
        ("says \"false\"", |pod| {
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
        let said = stage.said();
        assert!(
            said[0].starts_with("answer Open: ") && said[0].contains(reason),
            "{said:?}"
        );
        assert!(
            said[1].starts_with("not-held: ") && said[2] == "forget",
            "{said:?}"
        );
    }
    let mut stage = held(Mode::Off, istio());
    stage.announce();
    assert!(stage.said()[0].contains("switches holding off"));
    let mut stage = held(Mode::Enforce, istio());
    let hold = Err("no nf_tables".to_owned());
    stage.send(Event::Kernel(Features { hold, dns: None }));
    stage.announce();
    assert!(stage.said()[0].contains("cannot hold connections: no nf_tables"));
}

#[test]
fn what_cannot_be_armed_says_so() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    stage.said();
    stage.send(Event::Armed {
        sandbox: sandbox(),
        result: Err("EPERM".to_owned()),
    });
    let failed =
        "hold-failed: connections cannot be made to wait, they go and may be refused: EPERM";
    assert_eq!(stage.said(), ["answer Failed: EPERM", failed, "forget"]);
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
    let mut spec = istio();
    spec.containers.push(container("daprd"));
    spec.containers[2].image = "ghcr.io/dapr/daprd:1.14.0".to_owned();
    let mut stage = held(Mode::Enforce, spec);
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
    }));
    stage.armed();
    assert!(
        stage.said()[1]
            .ends_with("DNS queries do not wait: the node's kernel has neither queue nor NFQUEUE")
    );
}

#[test]
fn restarted_proxy_is_waited_for_where_that_is_asked_for() {
    let mut spec = pod(RestartPolicy::Always, &["app"]);
    let again = [("usher.dev/hold-again".to_owned(), "true".to_owned())];
    spec.annotations = again.into();
    let mut stage = held(Mode::Enforce, spec);
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

fn find(stage: &mut Stage, remains: Option<Remains>) {
    let key = key("a");
    let sandbox = SandboxId::parse(key.id.as_str()).unwrap();
    stage.send(Event::Found {
        key,
        sandbox,
        remains,
    });
}

#[test]
fn what_an_earlier_agent_left_is_adopted_or_cleaned_up() {
    let remains = || {
        Some(Remains {
            ports: vec![(15001, seconds(12))],
            count_only: false,
            queries: false,
        })
    };
    let restarted = |mode| {
        let mut stage = bare(mode, istio());
        stage.send(Event::PodAppeared(uid()));
        stage.start("app", "a");
        assert_eq!(stage.said(), ["look"]);
        stage.start(PROXY, "i");
        assert_eq!(stage.said(), [""; 0]);
        stage
    };
    let found = "hold-found: an earlier agent had connections wait at :15001; they wait on as long as that is wanted";
    let mut stage = restarted(Mode::Enforce);
    find(&mut stage, remains());
    assert_eq!(stage.said(), [found]);
    stage.list();
    assert_eq!(stage.said(), [WATCH]);
    stage.pass(seconds(13));
    assert_eq!(stage.said(), ["open all"]);
    // Not wanted any more.
    let mut stage = restarted(Mode::Off);
    stage.list();
    find(&mut stage, remains());
    assert_eq!(stage.said(), [found, "open all"]);
    // Nothing was left, and the app runs.
    let mut stage = restarted(Mode::Enforce);
    stage.list();
    find(&mut stage, None);
    assert_eq!(
        stage.said(),
        ["not-held: its apps had started before usher did", "forget"]
    );
}

#[test]
fn pod_whose_init_containers_outlived_the_agent_is_held() {
    let mut spec = istio();
    spec.init_containers = vec!["istio-init".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.start("istio-init", "k");
    assert_eq!(stage.said(), ["look"]);
    find(&mut stage, None);
    assert_eq!(stage.said(), [""; 0]);
    stage.exit("k", 0);
    assert_eq!(stage.said(), [ARM]);
}
