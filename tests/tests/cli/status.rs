//! `usher status`.

use std::thread;

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::kubelet::Behaviour;
use usher_tests::synthetic::{Agent, PodSpec, usher};

use crate::{answer, enforcing, golden, json, known, run};

#[test]
fn healthy_node_fits_one_screen_and_one_line() {
    let Some(node) = enforcing() else { return };
    // Its app runs before the agent does, so nothing is held.
    let _pod = node.run(&PodSpec::job("seen"));
    let agent = Agent::start(&node);
    known(&node);
    let names = [
        (node.config_file().display().to_string(), "CONFIG"),
        (format!("process {}", agent.pid()), "process PID"),
    ];
    let names: Vec<(&str, &str)> = names
        .iter()
        .map(|(value, name)| (value.as_str(), *name))
        .collect();
    let screen = answer(&node, &["status"]);
    // The features of the kernel differ between machines.
    let screen: Vec<&str> = screen
        .lines()
        .filter(|line| !line.starts_with("hold support"))
        .collect();
    golden("status.txt", &(screen.join("\n") + "\n"), &names);
    let brief = answer(&node, &["status", "--brief"]);
    assert_eq!(
        brief,
        "ok: quit enforce, hold enforce, 1 pods, 0 held, 0 finished\n"
    );
    let reported = json(&node, &["status"]);
    assert_eq!(
        (&reported["kind"], &reported["from"]),
        (&"Status".into(), &"agent".into())
    );
    assert_eq!(reported["problems"].as_array().map(Vec::len), Some(0));
    assert_eq!(reported["agent"]["pid"], agent.pid());
}

#[test]
fn each_problem_has_a_next_step() {
    let Some(node) = enforcing() else { return };
    let _agent = Agent::start(&node);
    let is = |code: i32, words: &str| {
        let ran = run(&node, &["status"]);
        ran.code == Some(code) && ran.stdout.contains(words)
    };
    eventually("all to be well", || is(0, "usher is healthy"));
    node.configure("defaults:\n  hold: perhaps\n");
    eventually("the broken file to be reported", || {
        is(1, "invalid, the last good one is in use: ")
    });
    let ran = run(&node, &["status", "--brief"]);
    assert!(
        ran.stdout
            .starts_with("degraded: the configuration is not used: "),
        "{ran:?}"
    );
    assert!(ran.stdout.contains(":2:9: defaults.hold"), "{ran:?}");
    assert!(ran.stdout.contains("(usher check)"), "{ran:?}");
    node.configure("");
    eventually("the file to be good", || is(0, "usher is healthy"));
    node.kubelet().behave(Behaviour::Status(401));
    let _pod = node.run(&PodSpec::job("unlisted"));
    eventually("the kubelet's response to be reported", || {
        is(1, "(status 401)")
    });
    node.kubelet().behave(Behaviour::Ok);
    eventually("the kubelet to be well", || is(0, "usher is healthy"));
}

#[test]
fn without_an_agent_reports_observed_state() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("alone"));
    let ran = run(&node, &["status"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(
        ran.stdout.contains("agent         no agent answers"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("pods          1 seen"), "{ran:?}");
    assert!(
        ran.stdout
            .contains("quit          enforce (last known; annotation usher.dev/mode of the Node)"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains("next: kubectl get pods -n usher"),
        "{ran:?}"
    );
    drop(pod);
}

#[test]
fn wait_prints_changes_until_healthy() {
    let Some(node) = enforcing() else { return };
    let mut command = usher::command_on(&node);
    let waiting = thread::spawn(move || command.args(["status", "--wait=60s"]).output().unwrap());
    let _agent = Agent::start(&node);
    let ran = waiting.join().unwrap();
    let stdout = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines.last().unwrap().starts_with("ok: "), "{stdout}");
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "{stdout}");
}

#[test]
fn wait_ends_at_its_timeout() {
    let Some(node) = enforcing() else { return };
    let ran = run(&node, &["status", "--wait=1s"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
}
