//! Sidecars below a shell: detection and severity.

use serde_json::json;

use super::{
    Id, OnTerm, Scenario, Severity, healthy,
    pods::{app, job, proxy},
    troubles,
};

#[test]
fn shell_is_an_error_when_only_a_signal_remains() {
    let sql = || {
        let image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0";
        let proxy = proxy("sql", image, json!({"args": ["--exit-zero-on-sigterm"]}));
        Scenario::new(job(&[app(json!({})), proxy]))
            .running("app", 60)
            .running("sql", 59)
    };
    let below = |scenario: Scenario, name: &str| {
        scenario.process(name, 1, "sh", &["/bin/sh", "-c", "a && b"], OnTerm::Default)
    };
    for (scenario, severity) in [
        (below(sql(), "sql"), Severity::Warning),
        (below(sql().ended("app", 60, 1, 0), "sql"), Severity::Error),
        // A request can end Istio's proxy.
        (
            below(healthy().ended("app", 60, 1, 0), "istio-proxy"),
            Severity::Warning,
        ),
    ] {
        let findings = scenario.explain().findings;
        let found = findings
            .iter()
            .find(|one| one.id == Id::ShellIsPid1)
            .unwrap();
        assert_eq!(found.severity, severity, "{findings:#?}");
    }
}

#[test]
fn shell_is_recognized_by_name_or_command() {
    #[rustfmt::skip]
    let table = [
        // The kernel names a script's process by the script.
        ("start.sh", ["/bin/sh", "/start.sh"], true),
        ("sh", ["/start", "now"], true),
        ("bash", ["-bash", "-l"], true),
        ("pilot-agent", ["pilot-agent", "proxy"], false),
    ];
    for (name, words, is_shell) in table {
        let scenario = healthy().process("istio-proxy", 1, name, &words, OnTerm::Default);
        assert_eq!(
            troubles(&scenario).contains(&"shell-is-pid-1"),
            is_shell,
            "{name}"
        );
    }
}
