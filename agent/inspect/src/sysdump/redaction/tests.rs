use proptest::prelude::*;
use serde_json::json;

use super::super::redaction::*;

fn of(mut value: Value) -> (Value, BTreeMap<Rule, u64>) {
    let reads = Reads::default();
    let mut redaction = Redaction::new(&reads);
    redaction.document(&mut value);
    (value, redaction.counts)
}

#[test]
fn document_of_any_command_is_redacted() {
    let (value, counts) = of(json!({
        "kind": "Conns",
        "rows": [{"argv": ["app", "--password", "hunter2", "--token=abc", "-v"], "pid": 7}],
        "settings": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "PORT", "value": "80"}],
        "apiToken": "abc", "tokenCount": 3, "token": true, "password": "",
        "annotations": {
            "usher.dev/quit": "false", "sidecar.istio.io/inject": "true", "shop.example/owner": "me",
            "notistio.io/a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        "message": "GET http://me:pw@host/ failed", "state": {"owner": "me", "ready": 1},
    }));
    let expected = json!({
        "kind": "Conns",
        "rows": [{"argv": ["app", "--password", "[redacted]", "--token=[redacted]", "-v"], "pid": 7}],
        "settings": [{"name": "DB_PASSWORD", "value": "[redacted]"}, {"name": "PORT", "value": "80"}],
        "apiToken": "[redacted]", "tokenCount": 3, "token": true, "password": "",
        "annotations": {"usher.dev/quit": "false", "sidecar.istio.io/inject": "true"},
        "message": "GET http://[redacted]@host/ failed", "state": {"owner": "me", "ready": 1},
    });
    assert_eq!(value, expected);
    let counts: Vec<(&str, u64)> = counts
        .iter()
        .map(|(rule, count)| (rule.as_str(), *count))
        .collect();
    assert_eq!(
        counts,
        [
            ("annotation", 3),
            ("argument", 2),
            ("named", 2),
            ("text", 1)
        ]
    );
    let (again, counts) = of(expected.clone());
    assert_eq!((again, counts.len()), (expected, 0));
}

#[test]
fn arguments_and_lists_are_redacted_whole() {
    let (value, counts) = of(json!({
        "argv": [
            "--password=Tr0ub4dor&3xyz", "--db-pass=(S3cret, a=b", "DB_PASSWORD=hunter 2", "MYSQL_PWD=\"a\"b",
            "--token=", "--url=http://a/?token=x&b=2", "PWD=/home", "--bypass=a",
        ],
        "tokens": ["abc", "", ["d e"], 7, {"user": "bob"}], "names": ["abc"],
    }));
    let expected = json!({
        "argv": [
            "--password=[redacted]", "--db-pass=[redacted]", "DB_PASSWORD=[redacted]", "MYSQL_PWD=[redacted]",
            "--token=", "--url=http://a/?token=[redacted]&b=2", "PWD=/home", "--bypass=a",
        ],
        "tokens": ["[redacted]", "", ["[redacted]"], 7, {"user": "bob"}], "names": ["abc"],
    });
    assert_eq!(value, expected);
    assert_eq!(
        counts,
        [(Rule::Argument, 4), (Rule::Named, 2), (Rule::Text, 1)].into()
    );
    let (again, counts) = of(expected.clone());
    assert_eq!((again, counts.len()), (expected, 0));
}

#[test]
fn flag_without_value_does_not_redact_the_next_flag() {
    let (value, _) = of(json!({"args": ["--token", "--port", "80", "--secret", 7, "a"]}));
    let expected = json!({"args": ["--token", "--port", "80", "--secret", 7, "a"]});
    assert_eq!(value, expected);
}

#[test]
fn flags_are_recognized_in_command_lines_only() {
    for value in [
        // A subcommand, and a flag that is not secret.
        json!({"argv": ["vault", "token", "lookup", "--format", "json"]}),
        // Not a command line.
        json!({"notes": ["--token", "was refused"]}),
    ] {
        let (left, counts) = of(value.clone());
        assert_eq!((left, counts.len()), (value, 0));
    }
}

#[test]
fn mesh_annotations_are_redacted_and_usher_annotations_kept() {
    let (value, counts) = of(json!({"annotations": {
        "usher.dev/sidecars": "token-agent=SIGINT",
        "proxy.istio.io/config": "tracing: http://me:pw@zipkin:9411",
        "config.linkerd.io/proxy-cpu": {"apiToken": "abc", "limit": 1},
    }}));
    let expected = json!({"annotations": {
        "usher.dev/sidecars": "token-agent=SIGINT",
        "proxy.istio.io/config": "tracing: http://[redacted]@zipkin:9411",
        "config.linkerd.io/proxy-cpu": {"apiToken": "[redacted]", "limit": 1},
    }});
    assert_eq!(value, expected);
    assert_eq!(counts, [(Rule::Text, 1), (Rule::Named, 1)].into());
}

#[test]
fn text_is_redacted() {
    let reads = Reads::default();
    let mut redaction = Redaction::new(&reads);
    let log = "level=warn msg=\"no answer\"\n";
    assert_eq!(redaction.text(log), log);
    assert!(redaction.counts().is_empty());
    let clean = redaction.text("GET http://me:pw@host/?token=abc\nnext\n");
    assert_eq!(
        clean,
        "GET http://[redacted]@host/?token=[redacted]\nnext\n"
    );
    assert_eq!(*redaction.counts(), [(Rule::Text, 2)].into());
}

#[test]
fn empty_and_redacted_variables_do_not_count() {
    let reads = Reads::default();
    let mut redaction = Redaction::new(&reads);
    for (value, expected) in [("", ""), (REDACTED, REDACTED), ("hunter2", REDACTED)] {
        let mut value = value.to_owned();
        redaction.variable("GREETING", &mut value);
        assert_eq!(value, expected);
    }
    assert_eq!(*redaction.counts(), [(Rule::Variable, 1)].into());
}

#[test]
fn rules_are_unique_and_documented() {
    let mut names: Vec<&str> = Rule::VARIANTS.iter().map(|rule| rule.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Rule::VARIANTS.len());
    assert!(Rule::VARIANTS.iter().all(|rule| !rule.meaning().is_empty()));
    let page = include_str!("../../../../../docs/sysdump.md");
    for (rule, text) in [
        (Rule::Annotation, "annotations and labels"),
        (Rule::Argument, "--password"),
        (Rule::Named, "secret name"),
        (Rule::Field, "fields of pods"),
        (Rule::Text, "private keys"),
        (Rule::Variable, "environment variables"),
    ] {
        assert!(
            rule.meaning().contains(text),
            "{rule:?}: {}",
            rule.meaning()
        );
        let row = format!("\n| `{}` | ", rule.as_str());
        assert!(
            page.contains(&row),
            "docs/sysdump.md does not list {rule:?}"
        );
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![
            Just("token".to_owned()),
            Just("args".to_owned()),
            "[a-z]{1,4}"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn redaction_keeps_types_and_is_idempotent(value in json_value()) {
        let (once, _) = of(value.clone());
        prop_assert_eq!(shape(&once), shape(&value));
        let (twice, counts) = of(once.clone());
        prop_assert_eq!(twice, once);
        prop_assert!(counts.is_empty());
    }
}

/// The document with empty texts.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => json!(""),
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), shape(value)))
            .collect(),
        other => other.clone(),
    }
}
