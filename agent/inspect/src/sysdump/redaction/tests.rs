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
fn document_of_any_command() {
    let (value, counts) = of(json!({
        "kind": "Conns",
        "rows": [{"argv": ["app", "--password", "hunter2", "--token=abc", "-v"], "pid": 7}],
        "settings": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "PORT", "value": "80"}],
        "apiToken": "abc", "tokenCount": 3, "token": true, "password": "",
        "annotations": {
            "usher.dev/quit": "false", "sidecar.istio.io/inject": "true", "shop.example/owner": "me",
            "notistio.io/a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        "said": "GET http://me:pw@host/ failed", "state": {"owner": "me", "ready": 1},
    }));
    let expected = json!({
        "kind": "Conns",
        "rows": [{"argv": ["app", "--password", "[redacted]", "--token=[redacted]", "-v"], "pid": 7}],
        "settings": [{"name": "DB_PASSWORD", "value": "[redacted]"}, {"name": "PORT", "value": "80"}],
        "apiToken": "[redacted]", "tokenCount": 3, "token": true, "password": "",
        "annotations": {"usher.dev/quit": "false", "sidecar.istio.io/inject": "true"},
        "said": "GET http://[redacted]@host/ failed", "state": {"owner": "me", "ready": 1},
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
            ("argument", 1),
            ("named", 2),
            ("text", 2)
        ]
    );
    let (again, counts) = of(expected.clone());
    assert_eq!((again, counts.len()), (expected, 0));
}

#[test]
fn flag_without_value_hides_no_flag() {
    let (value, _) = of(json!({"args": ["--token", "--port", "80", "--secret", 7, "a"]}));
    let expected = json!({"args": ["--token", "--port", "80", "--secret", 7, "a"]});
    assert_eq!(value, expected);
}

#[test]
fn flags_are_those_of_command_lines() {
    for value in [
        // A subject of a command and a flag of no secret.
        json!({"argv": ["vault", "token", "lookup", "--format", "json"]}),
        // A list of anything else.
        json!({"notes": ["--token", "was refused"]}),
    ] {
        let (left, counts) = of(value.clone());
        assert_eq!((left, counts.len()), (value, 0));
    }
}

#[test]
fn notes_of_meshes_are_texts_and_those_of_usher_are_as_usher_reads_them() {
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
fn text_that_is_no_document() {
    let reads = Reads::default();
    let mut redaction = Redaction::new(&reads);
    let said = "level=warn msg=\"no answer\"\n";
    assert_eq!(redaction.text(said), said);
    assert!(redaction.counts().is_empty());
    let clean = redaction.text("GET http://me:pw@host/?token=abc\nnext\n");
    assert_eq!(
        clean,
        "GET http://[redacted]@host/?token=[redacted]\nnext\n"
    );
    assert_eq!(*redaction.counts(), [(Rule::Text, 2)].into());
}

#[test]
fn variables_without_a_value_and_those_left_out_already_do_not_count() {
    let reads = Reads::default();
    let mut redaction = Redaction::new(&reads);
    for (value, expected) in [("", ""), (MARK, MARK), ("hunter2", MARK)] {
        let mut value = value.to_owned();
        redaction.variable("GREETING", &mut value);
        assert_eq!(value, expected);
    }
    assert_eq!(*redaction.counts(), [(Rule::Variable, 1)].into());
}

#[test]
fn rules_have_names_of_their_own_and_say_what_they_leave_out() {
    let mut names = Rule::ALL.map(Rule::as_str).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Rule::ALL.len());
    let page = include_str!("../../../../../docs/sysdump.md");
    for (rule, says) in [
        (Rule::Annotation, "annotations and labels"),
        (Rule::Argument, "--password"),
        (Rule::Named, "whose name says"),
        (Rule::Field, "fields of pods"),
        (Rule::Text, "private keys"),
        (Rule::Variable, "values of variables"),
    ] {
        assert!(
            rule.meaning().contains(says),
            "{rule:?}: {}",
            rule.meaning()
        );
        let row = format!("\n| `{}` | ", rule.as_str());
        assert!(page.contains(&row), "the page has nothing of {rule:?}");
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
    fn types_stay_and_twice_is_once(value in json_value()) {
        let (once, _) = of(value.clone());
        prop_assert_eq!(shape(&once), shape(&value));
        let (twice, counts) = of(once.clone());
        prop_assert_eq!(twice, once);
        prop_assert!(counts.is_empty());
    }
}

/// The document without what its texts say.
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
