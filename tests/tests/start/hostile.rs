//! Unusual or hostile pods and bundles.

use std::process::Command;
use std::time::Duration;

use usher_tests::lease::lease;
use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{ConfigText, Entry, Program, Root};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};
use usher_tests::wait::fewer;

use crate::{
    APP, app, connected, count, held, holding, is, is_held_until_ready, meanwhile, nothing_is_held,
    pod, proxy, ran_after_the_proxy, ready, ready_on_command, reason,
};

/// The minimum for each of them.
const EXECS: usize = 2_000;
const STORMS: [&str; 2] = ["storm", "other-storm"];
const MIB: usize = 1024 * 1024;
const CROWD: usize = 10;
fn beside_proxy(node: &Node, app: ContainerSpec) -> Pod {
    node.create(&pod("odd").with(app).with(proxy()))
}

/// The app starts although its proxy is not ready. Its connection waits, and the starts of other
/// containers are held as usual.
fn starts_unheld(node: &Node, agent: &Agent, app: ContainerSpec) -> Pod {
    let odd = beside_proxy(node, app);
    odd.first_instruction(APP);
    assert_eq!(count(agent, "start-held", &odd), 0);
    ready(&odd);
    connected(&odd.client_result_so_far(APP, 1));
    meanwhile(node, agent, "other");
    odd
}

/// The kernel delays an open of the program for 45 s, also the one that it makes for the holder.
#[test]
fn lease_on_the_program_of_an_app() {
    let Some(node) = holding().filter(|_| privilege::granted_with(&["perl"])) else {
        return;
    };
    let agent = Agent::start(&node);
    let before = node.create(&ready_on_command("before"));
    held(&agent, &before);
    let holder = agent.wait_holder(None);
    // Processes of other tests execute the file that this one is a link to.
    let program = node.volume_program().unwrap();
    let copy = program.with_extension("copy");
    let copied = Command::new("cp").args([&program, &copy]).status();
    assert!(copied.unwrap().success());
    std::fs::rename(&copy, &program).unwrap();
    let mut owner = lease(&program);
    let odd = beside_proxy(&node, app(APP).entry(Entry::Volume));
    let why = reason(&agent, "start-not-held", &odd);
    assert!(why.contains("EPERM"), "{why}");
    assert!(!odd.has_run(APP));
    meanwhile(&node, &agent, "other");
    assert!(!before.has_run(APP), "a start was released");
    assert_eq!(agent.wait_holder(None), holder, "the holder ended");
    ready(&before);
    ran_after_the_proxy(&before);
    drop(owner.stdin.take());
    owner.wait().unwrap();
}

#[test]
fn thousands_of_execs_in_a_held_container() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let [busy, other] = ["busy", "other"].map(|name| node.create(&ready_on_command(name)));
    held(&agent, &busy);
    held(&agent, &other);
    let execs = u32::try_from(fewer(EXECS)).unwrap();
    for storm in STORMS {
        busy.exec(APP, storm, Program::Execs(execs));
        busy.first_instruction(storm);
    }
    ready(&other);
    ran_after_the_proxy(&other);
    meanwhile(&node, &agent, "third");
    for storm in STORMS {
        busy.send_line(storm, "enough");
        assert_eq!(busy.ended(storm).code(), 0);
    }
    assert!(!busy.has_run(APP));
    ready(&busy);
    ran_after_the_proxy(&busy);
}

#[test]
fn bundle_that_is_a_link() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    starts_unheld(&node, &agent, app(APP).linked());
}

#[test]
fn root_without_overlayfs() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let odd = starts_unheld(&node, &agent, app(APP).root(Root::Bind));
    reason(&agent, "start-not-held", &odd);
}

#[test]
fn garbage_or_endless_configuration() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for config in [ConfigText::Garbage, ConfigText::Padded(10 * MIB)] {
        starts_unheld(&node, &agent, app(APP).config(config));
    }
}

#[test]
fn long_or_chunked_configuration() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let parts = ConfigText::InParts(Duration::from_millis(20));
    for config in [ConfigText::Padded(MIB), parts] {
        let odd = beside_proxy(&node, app(APP).config(config));
        is_held_until_ready(&agent, &odd);
    }
}

/// Each start is held, or reported as missed, and its connection waits.
#[test]
fn hundred_containers_at_once() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let names: Vec<String> = (0..CROWD).map(|n| format!("app-{n}")).collect();
    let pods: Vec<Pod> = (0..fewer(CROWD))
        .map(|n| {
            let spec = pod(&format!("crowd-{n}"));
            let apps = names.iter().map(|name| app(name));
            node.create(&apps.fold(spec, PodSpec::with).with(proxy()))
        })
        .collect();
    let is_held = |pod: &Pod, name: &str| {
        let of_it = |line: &_| is(line, "start-held", pod) && line["container"] == *name;
        agent.log().count(of_it) > 0
    };
    let mut missed = 0;
    for pod in &pods {
        for name in &names {
            pod.started(name);
            eventually("a start to be held, or missed", || {
                is_held(pod, name) || pod.has_run(name)
            });
            missed += usize::from(pod.has_run(name));
        }
    }
    assert!(missed < pods.len() * CROWD, "nothing was held");
    for pod in &pods {
        ready(pod);
    }
    for pod in &pods {
        for name in &names {
            pod.first_instruction(name);
            connected(&pod.client_result_so_far(name, 1));
        }
    }
    nothing_is_held(&agent);
    // A missed start is reported when the ports are released.
    let reported = || pods.iter().map(|pod| count(&agent, "start-missed", pod));
    eventually("each miss to be reported", || {
        reported().sum::<usize>() == missed
    });
}
