//! `usher status`.

use std::thread;

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::kubelet::Behaviour;
use usher_tests::synthetic::{Agent, PodSpec, usher};

use crate::{answer, enforcing, golden, json, known, run};

#[test]
fn all_is_well_on_one_screen_and_in_one_line() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let _pod = node.run(&PodSpec::job("seen"));
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
    // What the machine's kernel can do is not the same everywhere.
    let screen: Vec<&str> = screen
        .lines()
        .filter(|line| !line.starts_with("can hold"))
        .collect();
    golden("status.txt", &(screen.join("\n") + "\n"), &names);
    let brief = answer(&node, &["status", "--brief"]);
    assert_eq!(
        brief,
        "ok: quit enforce, hold enforce, 1 pods, 0 held, 0 finished\n"
    );
    let told = json(&node, &["status"]);
    assert_eq!(
        (&told["kind"], &told["from"]),
        (&"Status".into(), &"agent".into())
    );
    assert_eq!(told["problems"].as_array().map(Vec::len), Some(0));
    assert_eq!(told["agent"]["pid"], agent.pid());
}

#[test]
fn what_is_wrong_comes_with_what_to_do_next() {
    let Some(node) = enforcing() else { return };
    let _agent = Agent::start(&node);
    let is = |code: i32, words: &str| {
        let ran = run(&node, &["status"]);
        ran.code == Some(code) && ran.said.contains(words)
    };
    eventually("all to be well", || is(0, "all is well"));
    node.configure("defaults:\n  hold: perhaps\n");
    eventually("the broken file to be told", || {
        is(1, "an older one counts: ")
    });
    let ran = run(&node, &["status", "--brief"]);
    assert!(
        ran.said
            .starts_with("degraded: the configuration is not used: "),
        "{ran:?}"
    );
    assert!(ran.said.contains(":2:9: defaults.hold"), "{ran:?}");
    assert!(ran.said.contains("(usher check)"), "{ran:?}");
    node.configure("");
    eventually("the file to be good", || is(0, "all is well"));
    node.kubelet().behave(Behaviour::Status(401));
    let _pod = node.run(&PodSpec::job("unlisted"));
    eventually("the kubelet's answer to be told", || is(1, "(status 401)"));
    node.kubelet().behave(Behaviour::Ok);
    eventually("the kubelet to be well", || is(0, "all is well"));
}

#[test]
fn without_an_agent_it_says_what_it_sees() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("alone"));
    let ran = run(&node, &["status"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.said.contains("agent         none answers"), "{ran:?}");
    assert!(ran.said.contains("pods          1 seen"), "{ran:?}");
    assert!(
        ran.said
            .contains("quit          enforce, as was last known"),
        "{ran:?}"
    );
    assert!(
        ran.said.contains("next: kubectl get pods -n usher"),
        "{ran:?}"
    );
    drop(pod);
}

#[test]
fn waits_until_all_is_well_and_tells_changes_only() {
    let Some(node) = enforcing() else { return };
    let mut command = usher::command_on(&node);
    let waiting = thread::spawn(move || command.args(["status", "--wait=60s"]).output().unwrap());
    let _agent = Agent::start(&node);
    let ran = waiting.join().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.last().unwrap().starts_with("ok: "), "{said}");
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "{said}");
}

#[test]
fn waits_no_longer_than_it_is_told() {
    let Some(node) = enforcing() else { return };
    let ran = run(&node, &["status", "--wait=1s"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert_eq!(ran.said.lines().count(), 1, "{ran:?}");
}
