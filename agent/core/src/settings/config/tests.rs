use super::super::config::*;

fn bad(text: &str) -> String {
    Config::parse("config.yaml", text).unwrap_err().to_string()
}

/// The key of an error, and its message.
fn key_and_what(text: &str) -> (String, String) {
    let BadConfig { key, what, .. } = Config::parse("config.yaml", text).unwrap_err();
    (key, what)
}

fn pair(key: &str, what: &str) -> (String, String) {
    (key.to_owned(), what.to_owned())
}

#[test]
fn empty_is_the_default() {
    for text in ["", "# nothing\n", "{}", "recipes: []\n"] {
        assert_eq!(
            Config::parse("x", text).unwrap(),
            Config::default(),
            "{text:?}"
        );
    }
}

#[test]
fn every_key_is_accepted() {
    let text = "
recipes:
  - name: shipper
    stage: logs
    recognize:
      - name: [shipper]
        image: [acme/shipper]
    quit:
      - post: {port: 4000, path: /stop}
      - signal: SIGINT
        takes: 3s
  - name: envoy
    recognize: [{image: [acme/envoy]}]
    quit: [{signal: SIGTERM}]
excludedNamespaces: [kube-system, monitoring]
defaults: {quit: false, quitDelay: 500ms, drain: 5s, allowPodFailure: true}
ladder: {attempt: 2s, settle: 3s, settleSignal: 1m, listen: 4s, kill: true}
";
    let config = Config::parse("x", text).unwrap();
    let names: Vec<&str> = config.recipes.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names[..2], ["shipper", "envoy"]);
    let envoys = names.iter().filter(|name| **name == "envoy");
    assert_eq!(envoys.count(), 1, "the built-in one is replaced");
    assert!(names.contains(&"istio"));
    assert!(config.excluded_namespaces.contains("monitoring"));
    assert!(!config.defaults.quit && config.defaults.allow_pod_failure);
    assert_eq!(config.defaults.quit_delay, Duration::from_millis(500));
    assert_eq!(config.ladder.settle_signal, Duration::from_secs(60));
    assert!(config.ladder.kill);
}

#[test]
fn errors_name_file_line_and_key() {
    let recipe = |rest: &str| {
        format!("recipes:\n  - name: x\n    recognize: [{{name: [x]}}]\n    quit:\n{rest}")
    };
    for (text, expected) in [
        ("recipe: []\n".to_owned(), "config.yaml:1:1: recipe: unknown field `recipe`"),
        ("defaults:\n  quitDelay: soon\n".to_owned(), "config.yaml:2:14: defaults.quitDelay: not a duration"),
        ("defaults:\n  quitDelay:\n".to_owned(), "config.yaml:2:"),
        ("ladder:\n  kill: maybe\n".to_owned(), "config.yaml:2:9: ladder.kill: "),
        (recipe("      - signal: SIGKILL\n"), "config.yaml:5:17: recipes[0].quit[0].signal: "),
        (recipe("      - post: {port: 70000, path: /x}\n"), "config.yaml:5:22: recipes[0].quit[0].post.port: \"70000\" is not a TCP port"),
        (recipe("      - post: {port: 1, path: x}\n"), "config.yaml:5:31: recipes[0].quit[0].post.path: \"x\" is not a path"),
        (recipe("      - post: {port: 1, path: /x}\n        signal: SIGTERM\n"), "config.yaml:5:9: recipes[0].quit[0]: a step is one of"),
        (recipe("      - signal: SIGTERM\n        when: {version: '1.2'}\n"), "config.yaml:6:25: recipes[0].quit[0].when.version: "),
        ("recipes:\n  - name: X\n    recognize: [{name: [x]}]\n    quit: [{signal: SIGTERM}]\n".to_owned(), "config.yaml:2:5: recipes[0]: \"X\" is no name"),
        ("recipes:\n  - name: x\n    recognize: [{name: ['*']}]\n    quit: [{signal: SIGTERM}]\n".to_owned(), "config.yaml:3:25: recipes[0].recognize[0].name[0]: \"*\" would match everything"),
        ("recipes: [\n".to_owned(), "config.yaml:1:10: "),
    ] {
        let error = bad(&text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        assert!(!error.contains(" at line"), "{error}");
    }
    let twice = recipe("      - signal: SIGTERM\n")
        + "  - name: x\n    recognize: [{name: [y]}]\n    quit: [{signal: SIGTERM}]\n";
    assert_eq!(
        bad(&twice),
        "config.yaml:6:5: recipes[1].name: a second recipe x"
    );
}

/// Errors about the meaning of a value name file, line and key as well.
#[test]
fn limits_name_file_line_and_key() {
    for (text, expected) in [
        (
            "ladder:\n  attempt: 0s\n",
            "config.yaml:2:12: ladder.attempt: must not be 0",
        ),
        (
            "# mine\ndefaults: {hold: true,\n  drain: 11m}\n",
            "config.yaml:3:10: defaults.drain: longer than 600s",
        ),
        (
            "defaults:\n\n  holdDeadline: 1ms\n",
            "config.yaml:3:17: defaults.holdDeadline: shorter than 1s",
        ),
    ] {
        assert_eq!(bad(text), expected);
    }
    let long = "#".repeat(strict_yaml::LONGEST + 1);
    assert_eq!(bad(&long), "config.yaml: longer than 1048576 bytes");
}

#[test]
fn oversized_file_is_rejected() {
    // Nested aliases grow without end.
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    assert!(!bad(&bomb).is_empty());
}

#[test]
fn limits_of_values() {
    for key in ["quitDelay", "drain", "holdDeadline"] {
        assert!(Config::parse("x", &format!("defaults: {{{key}: 10m}}")).is_ok());
        assert_eq!(
            key_and_what(&format!("defaults: {{{key}: 10m 1ms}}")),
            pair(&format!("defaults.{key}"), "longer than 600s")
        );
    }
    let shortest = Config::parse("x", "defaults: {holdDeadline: 1s}").unwrap();
    assert_eq!(shortest.defaults.hold_deadline, SHORTEST_HOLD);
    assert_eq!(
        key_and_what("defaults: {holdDeadline: 999ms}"),
        pair("defaults.holdDeadline", "shorter than 1s")
    );
    assert_eq!(
        key_and_what("ladder: {attempt: 0s}"),
        pair("ladder.attempt", "must not be 0")
    );
}

#[test]
fn limits_of_a_file() {
    let recipes = |count: usize| {
        let recipe = |at| {
            format!("- {{name: r{at}, recognize: [{{name: [x]}}], quit: [{{signal: SIGTERM}}]}}\n")
        };
        "recipes:\n".to_owned() + &(0..count).map(recipe).collect::<String>()
    };
    let most = Config::parse("x", &recipes(RECIPES)).unwrap();
    assert_eq!(most.recipes.len(), RECIPES + recipe::builtin().len());
    assert_eq!(
        key_and_what(&recipes(RECIPES + 1)),
        pair("recipes", "more than 256 recipes")
    );
    assert!(Config::parse("x", &"#".repeat(strict_yaml::LONGEST)).is_ok());
    assert_eq!(
        key_and_what(&"#".repeat(strict_yaml::LONGEST + 1)),
        pair("", "longer than 1048576 bytes")
    );
}
