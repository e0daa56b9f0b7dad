//! `usher config`.

use serde_json::Value;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Node};

use crate::{answer, enforcing, json, run};

const FILE: &str =
    "# of this test\ndefaults:\n  holdDeadline: 20s\nexcludedNamespaces: [kube-system]\n";

/// The value and the source of a setting.
fn of(settings: &Value, key: &str) -> (String, String) {
    let items = settings["items"].as_array().unwrap();
    let found = items.iter().find(|one| one["key"] == key);
    let found = found.unwrap_or_else(|| panic!("no {key} in {settings:#}"));
    let text = |name: &str| found[name].as_str().unwrap().to_owned();
    (text("value"), text("source"))
}

fn expect(settings: &Value, key: &str, value: &str, source: &str) {
    assert_eq!(
        of(settings, key),
        (value.to_owned(), source.to_owned()),
        "{key}"
    );
}

fn of_file(node: &Node, settings: &Value) {
    let file = node.config_file().display().to_string();
    expect(
        settings,
        "defaults.holdDeadline",
        "20s",
        &format!("{file}:3"),
    );
    expect(
        settings,
        "excludedNamespaces",
        "[kube-system]",
        &format!("{file}:4"),
    );
    expect(settings, "defaults.quitDelay", "0s", "default");
    expect(settings, "recipes.istio", "mesh", "built-in");
    let annotation = "annotation usher.dev/mode of the Node";
    expect(settings, "mode.hold", "enforce", annotation);
}

#[test]
fn each_value_names_its_source() {
    let Some(node) = enforcing() else { return };
    node.configure(FILE);
    let agent = Agent::start(&node);
    eventually("the modes of the Node", || {
        agent
            .log()
            .count(|line| line["message"] == "applied the modes")
            > 0
    });
    let settings = json(&node, &["config"]);
    of_file(&node, &settings);
    expect(&settings, "--api-server", "off", "flag");
    expect(&settings, "--startup-taint", "", "default");
    let text = answer(&node, &["config", "holdDeadline", "--sources"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("config.yaml:3"), "{text}");
    assert!(!answer(&node, &["config", "holdDeadline"]).contains("config.yaml"));

    agent.kill();
    let ran = run(&node, &["config", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("the flags of the agent are not known"),
        "{ran:?}"
    );
    of_file(&node, &serde_json::from_str(&ran.stdout).unwrap());
}

#[test]
fn broken_file_is_named_and_the_effective_configuration_printed() {
    let Some(node) = enforcing() else { return };
    node.configure(FILE);
    let agent = Agent::start(&node);
    node.configure("defaults:\n  holdDeadline: soon\n");
    eventually("the agent to see it", || {
        run(&node, &["config"]).code == Some(1)
    });
    let check = |source: &str| {
        let ran = run(&node, &["config", "-o", "json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(
            ran.stderr.contains(":2:17: defaults.holdDeadline"),
            "{ran:?}"
        );
        let settings: Value = serde_json::from_str(&ran.stdout).unwrap();
        let (value, from) = of(&settings, "defaults.holdDeadline");
        assert_eq!(value, "20s");
        assert!(from.contains(source), "{from}");
    };
    check("config.yaml:3");
    agent.kill();
    check("last good configuration:3");
}
