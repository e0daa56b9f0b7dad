use std::fmt::Write;

use proptest::prelude::*;

use super::super::bundle::*;

const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

/// A configuration as containerd writes it, with these annotations.
fn config(annotations: &[(&str, &str)]) -> String {
    let mut list = String::new();
    for (key, value) in annotations {
        let comma = if list.is_empty() { "" } else { "," };
        write!(list, "{comma}\"{key}\":\"{value}\"").unwrap();
    }
    format!(
        r#"{{"ociVersion":"1.0.2-dev","process":{{"args":["/app","annotations"],"env":["A=\u00e4 {{}}"],
          "user":{{"uid":0,"gid":0}}}},"root":{{"path":"rootfs"}},"mounts":[{{"destination":"/proc",
          "annotations":{{"{CONTAINER_NAME}":"other"}}}}],"annotations":{{{list}}},"linux":{{"resources":{{}}}}}}"#
    )
}

fn identity(annotations: &[(&str, &str)]) -> String {
    match parse(config(annotations).as_bytes()) {
        Ok(bundle) => format!("{} {:?}", bundle.pod, bundle.container),
        Err(error) => error.to_string(),
    }
}

#[test]
fn annotations() {
    let kind = |kind| (CONTAINER_TYPE, kind);
    let name = |name| (CONTAINER_NAME, name);
    let uid = (SANDBOX_UID, UID);
    let other = ("io.kubernetes.cri.sandbox-id", "3f3f");
    let container = format!("{UID} Some(\"istio-proxy\")");
    let sandbox = format!("{UID} None");
    let long = "a".repeat(64);
    for (annotations, expected) in [
        (
            vec![name("istio-proxy"), kind("container"), other, uid],
            container.as_str(),
        ),
        (vec![kind("sandbox"), other, uid], &sandbox),
        // The name of a sandbox is ignored.
        (vec![name("A/B"), kind("sandbox"), uid], &sandbox),
        (
            vec![],
            "the bundle's annotation io.kubernetes.cri.container-type is absent",
        ),
        (
            vec![kind("podsandbox"), name("a"), uid],
            "the bundle's annotation io.kubernetes.cri.container-type cannot be \"podsandbox\"",
        ),
        (
            vec![kind("container"), name("a")],
            "the bundle's annotation io.kubernetes.cri.sandbox-uid is absent",
        ),
        (
            vec![kind("sandbox"), (SANDBOX_UID, "../..")],
            "the bundle's annotation io.kubernetes.cri.sandbox-uid cannot be \"../..\"",
        ),
        (
            vec![kind("container"), uid],
            "the bundle's annotation io.kubernetes.cri.container-name is absent",
        ),
        (
            vec![kind("container"), name(""), uid],
            "the bundle's annotation io.kubernetes.cri.container-name cannot be \"\"",
        ),
        (
            vec![kind("container"), name("a/b"), uid],
            "the bundle's annotation io.kubernetes.cri.container-name cannot be \"a/b\"",
        ),
        (
            vec![kind("container"), name("-a"), uid],
            "the bundle's annotation io.kubernetes.cri.container-name cannot be \"-a\"",
        ),
        (
            vec![kind("container"), name(&long), uid],
            &format!("the bundle's annotation io.kubernetes.cri.container-name cannot be {long:?}"),
        ),
    ] {
        assert_eq!(identity(&annotations), expected, "{annotations:?}");
    }
}

#[test]
fn invalid_configurations() {
    for broken in [
        "[]",
        "3",
        "\"a\"",
        "x",
        "null",
        "{}x",
        "{\"annotations\":3}",
    ] {
        let error = parse(broken.as_bytes());
        assert!(matches!(error, Err(NotABundle::NotJson(_))), "{broken}");
    }
    let number = format!("{{\"annotations\":{{\"{CONTAINER_NAME}\":1}}}}");
    let error = parse(number.as_bytes());
    assert!(matches!(error, Err(NotABundle::NotJson(_))));
    for none in ["{}", "{\"annotations\":null}", "{\"annotations\":{}}"] {
        let error = parse(none.as_bytes());
        assert!(matches!(error, Err(NotABundle::Foreign { .. })), "{none}");
    }
}

fn whole() -> String {
    config(&[
        (CONTAINER_NAME, "app"),
        (CONTAINER_TYPE, "container"),
        (SANDBOX_UID, UID),
    ])
}

#[test]
fn half_of_it_is_incomplete() {
    let whole = whole();
    for length in 0..whole.len() {
        let half = parse(&whole.as_bytes()[..length]);
        assert!(matches!(half, Err(NotABundle::Incomplete)), "{length}");
    }
    for white in [" ", "\n", "\r\n\t"] {
        assert!(parse(format!("{whole}{white}").as_bytes()).is_ok());
    }
}

#[test]
fn deep_nesting_is_accepted() {
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    let found = parse(deep.as_bytes());
    assert!(matches!(found, Err(NotABundle::Incomplete)), "{found:?}");
}

proptest! {
    #[test]
    fn any_names_are_accepted_or_rejected(name in "[a-zA-Z0-9./_-]{0,70}", sandbox: bool) {
        let kind = if sandbox { "sandbox" } else { "container" };
        let text = config(&[(CONTAINER_TYPE, kind), (CONTAINER_NAME, &name), (SANDBOX_UID, UID)]);
        match parse(text.as_bytes()) {
            Ok(bundle) => prop_assert_eq!(bundle.container, (!sandbox).then_some(name)),
            Err(NotABundle::Foreign { annotation, value }) => {
                prop_assert_eq!(annotation, CONTAINER_NAME);
                prop_assert!(!is_container_name(&name) && name.starts_with(&value.unwrap()));
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn any_bytes_do_not_panic(bytes: Vec<u8>, at in 0_usize..512) {
        let _any = parse(&bytes);
        let mut changed = whole().into_bytes();
        let at = at.min(changed.len());
        changed.splice(at..at, bytes);
        if let Ok(bundle) = parse(&changed) {
            prop_assert!(bundle.container.is_none_or(|name| is_container_name(&name)));
        }
    }
}
