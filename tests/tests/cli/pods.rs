//! `usher pods`.

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{all_run, answer, enforcing, json, run};

#[test]
fn same_with_and_without_an_agent() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("same"));
    let agent = Agent::start(&node);
    eventually("the app to be seen and listed", || {
        let seen = &json(&node, &["pods"])["items"][0];
        let mut containers = seen["containers"].as_array().into_iter().flatten();
        let app = containers.find(|found| found["name"] == "app");
        seen["state"] == "running" && app.is_some_and(|app| app["pid"] == pod.pid("app"))
    });
    all_run(&node);
    let mut with = json(&node, &["pods"]);
    assert_eq!(with["from"], "agent");
    agent.kill();
    let ran = run(&node, &["pods"]);
    assert!(ran.stderr.contains("no agent answers"), "{ran:?}");
    let mut without = json(&node, &["pods"]);
    assert_eq!(without["from"], "node");
    assert_eq!(with["items"][0]["state"], "running");
    assert_eq!(with["items"][0].take(), without["items"][0].take());
}

#[test]
fn table_without_headers_and_yaml() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("forms"));
    let text = answer(&node, &["pods"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("POD "), "{text}");
    assert!(lines[1].starts_with(&pod.name()), "{text}");
    let bare = answer(&node, &["pods", "--no-headers"]);
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&bare), words(lines[1]));
    let wide = answer(&node, &["pods", "-o", "wide"]);
    assert!(wide.contains(pod.uid()), "{wide}");
    let yaml = answer(&node, &["pods", "-o", "yaml"]);
    assert!(yaml.contains(&format!("uid: {}", pod.uid())), "{yaml}");
    let none = answer(&node, &["pods", "nothing-of-that-name"]);
    assert!(none.contains("no pods"), "{none}");
}
