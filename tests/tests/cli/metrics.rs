//! `usher metrics`.

use usher_tests::synthetic::{Agent, clock::eventually};

use crate::{answer, enforcing, json, run};

#[test]
fn same_numbers_as_over_http() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    agent.wait_metric("usher_kubelet_requests_total", "result=\"ok\"", |count| {
        count > 0.0
    });
    let stdout = answer(&node, &["metrics", "usher_mode"]);
    let words: Vec<Vec<&str>> = stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words,
        [
            ["NAME", "LABELS", "VALUE"],
            ["usher_mode", "capability=hold,mode=enforce", "1"],
            ["usher_mode", "capability=linger,mode=enforce", "1"],
            ["usher_mode", "capability=quit,mode=enforce", "1"],
        ],
        "{stdout}"
    );
    // A series may be added between the two.
    eventually("the same series by both", || {
        let all = json(&node, &["metrics", "--all"]);
        assert_eq!(all["kind"], "Metrics");
        let of_http = agent.metrics();
        let samples = of_http
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count();
        all["items"].as_array().map(Vec::len) == Some(samples)
    });
    let valid = json(&node, &["metrics", "usher_config_valid"]);
    let expected = serde_json::json!([{"name": "usher_config_valid", "labels": {}, "value": 1.0}]);
    assert_eq!(valid["items"], expected);
    let none = answer(&node, &["metrics", "no_such"]);
    assert!(none.contains("no matching series"), "{none}");
}

#[test]
fn needs_an_agent() {
    let Some(node) = enforcing() else { return };
    let ran = run(&node, &["metrics"]);
    assert_eq!((ran.code, &ran.stdout[..]), (Some(5), ""), "{ran:?}");
    assert!(ran.stderr.contains("this needs the agent"), "{ran:?}");
}
