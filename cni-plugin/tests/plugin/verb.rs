//! Verbs without an effect, and invalid calls.

use serde_json::{Value, json};

use crate::call::Call;

const VERSIONS: [&str; 4] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];

fn conf(version: &str) -> String {
    format!("{{\"cniVersion\":\"{version}\",\"name\":\"n\",\"type\":\"usher-cni\"}}")
}

#[test]
fn versions() {
    for version in VERSIONS {
        let input = format!("{{\"cniVersion\":\"{version}\"}}");
        let answer = Call::bare("VERSION").run(&input);
        assert_eq!((answer.code, &answer.stderr[..]), (Some(0), ""));
        let stdout: Value = serde_json::from_str(&answer.stdout).unwrap();
        assert_eq!(stdout["cniVersion"], version);
        let supported = stdout["supportedVersions"].as_array().unwrap();
        for version in VERSIONS {
            assert!(supported.contains(&json!(version)), "{stdout}");
        }
    }
    // Runtimes send a configuration, and operators try the verb without stdin. Both succeed.
    for stdin in ["", "{", "[]"] {
        let answer = Call::bare("VERSION").run(stdin);
        let stdout: Value = serde_json::from_str(&answer.stdout).unwrap();
        assert_eq!(
            (answer.code, &stdout["cniVersion"]),
            (Some(0), &json!("1.1.0"))
        );
    }
}

#[test]
fn del_keeps_no_state_and_succeeds() {
    Call::bare("DEL").run("").expect_silence();
    Call::bare("DEL").run("{\"cniVersion\"").expect_silence();
    Call::bare("DEL").run(b"\xff").expect_silence();
    for version in VERSIONS {
        let removed = Call::bare("DEL")
            .with("CNI_CONTAINERID", "a")
            .with("CNI_NETNS", "/run/netns/removed")
            .with("CNI_IFNAME", "eth0");
        removed.run(conf(version)).expect_silence();
    }
}

#[test]
fn verbs_without_an_effect() {
    for verb in ["CHECK", "STATUS", "GC"] {
        for version in VERSIONS {
            Call::bare(verb).run(conf(version)).expect_silence();
        }
        for (stdin, number) in [("", 6), ("[]", 6), ("{}}", 6)] {
            let error = Call::bare(verb).run(stdin).expect_error(number);
            assert_eq!(error["cniVersion"], "1.1.0");
        }
    }
    let collect = format!(
        "{},\"cni.dev/valid-attachments\":[{{\"containerID\":\"a\",\"ifname\":\"b\"}}]}}",
        conf("1.1.0").trim_end_matches('}')
    );
    Call::bare("GC").run(collect).expect_silence();
}

#[test]
fn missing_verb_is_an_error_in_the_runtimes_version() {
    for call in [
        Call::nothing(),
        Call::bare(""),
        Call::bare("add"),
        Call::bare("UPDATE"),
    ] {
        let error = call.run(conf("0.4.0")).expect_error(4);
        assert_eq!(error["cniVersion"], "0.4.0");
    }
}

#[test]
fn malformed_input_has_no_result_to_pass_on() {
    let cases: [(&[u8], u64); 7] = [
        (b"", 6),
        (b"{", 6),
        (b"null", 6),
        (b"{\"prevResult\":{}} x", 6),
        (b"\xef\xbb\xbf{}", 6),
        (b"{\"a\":\"\xff\"}", 6),
        (b"{\"name\":\"n\",\"prevResult\":null}", 7),
    ];
    for (stdin, number) in cases {
        let answer = Call::bare("ADD").run(stdin);
        answer.expect_error(number);
    }
    let first = Call::bare("ADD").run(conf("0.3.1")).expect_error(7);
    assert_eq!(first["cniVersion"], "0.3.1");
    let details = first["details"].as_str().unwrap();
    assert!(details.contains("must follow another plugin"), "{details}");
}
