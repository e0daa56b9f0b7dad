//! Findings that are part of another one, and those that stand beside it.

use serde_json::{Value, json};

use super::{
    Id, OnTerm, Scenario, healthy,
    pods::{app, istio, job, native, proxy},
    troubles,
};

const SHELL: [&str; 3] = ["/bin/sh", "-ec", "vault agent && true"];
const ENFORCE: &str = "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite";

fn below_a_shell(scenario: Scenario, name: &str) -> Scenario {
    scenario.process(name, 1, "sh", &SHELL, OnTerm::Default)
}

/// A Job's pod whose app ended 30 s ago, with its sidecars.
fn done(sidecars: &[Value]) -> Scenario {
    let containers = [&[app(json!({}))], sidecars].concat();
    let scenario = Scenario::new(job(&containers)).ended("app", 60, 30, 0);
    sidecars.iter().fold(scenario, |scenario, sidecar| {
        scenario.running(sidecar["name"].as_str().unwrap(), 59)
    })
}

fn sql(args: &[&str]) -> Value {
    let image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0";
    proxy("sql", image, json!({"args": args}))
}

#[test]
fn shell_below_which_usher_can_end_the_sidecar_does_not_hide_that_it_stays() {
    let vault = proxy("vault-agent", "hashicorp/vault:1.17.2", json!({}));
    let requested = done(&[vault, istio(json!({}))])
        .annotation("vault.hashicorp.com/agent-enable-quit", "true");
    let of_native = native(&[app(json!({})), sql(&["--quitquitquit"])]);
    let of_native = Scenario::new(of_native)
        .ended("app", 60, 30, 0)
        .running("sql", 59)
        .running("istio-proxy", 60);
    for (scenario, shell, stays) in [
        (requested, "vault-agent", "vault-agent"),
        (of_native, "istio-proxy", "sql"),
    ] {
        let scenario = below_a_shell(scenario, shell);
        assert_eq!(troubles(&scenario), ["sidecar-stays", "shell-is-pid-1"]);
        let findings = scenario.explain().findings;
        assert_eq!(findings[0].container.as_deref(), Some(stays));
        assert_eq!(findings[0].how, ENFORCE);
        assert_eq!(findings[1].container.as_deref(), Some(shell));
    }
}

#[test]
fn shell_that_keeps_a_sidecar_is_its_cause() {
    let image = "registry.example/fluent/fluent-bit:3.2.2";
    let only_by_signal = done(&[proxy("fluent-bit", image, json!({}))]);
    let scenario = below_a_shell(only_by_signal, "fluent-bit");
    assert_eq!(troubles(&scenario), ["shell-is-pid-1"]);
    let cause = scenario.explain().cause().map(|cause| cause.id);
    assert_eq!(cause, Some(Id::ShellIsPid1));
}

#[test]
fn exit_code_of_one_sidecar_does_not_hide_another_one() {
    let both = [sql(&[]), istio(json!({}))];
    let stays = done(&both).ended("istio-proxy", 59, 29, 137);
    assert_eq!(troubles(&stays), ["nonzero-exit-code", "quit-endpoint-off"]);
    let findings = stays.explain().findings;
    assert_eq!(findings[0].container.as_deref(), Some("istio-proxy"));
    assert_eq!(findings[1].container.as_deref(), Some("sql"));
    let requested = done(&[sql(&["--quitquitquit"]), istio(json!({}))]);
    let stays = requested.ended("istio-proxy", 59, 29, 137);
    assert_eq!(troubles(&stays), ["nonzero-exit-code", "sidecar-stays"]);
    let again = healthy()
        .policy("OnFailure")
        .ended("app", 60, 30, 0)
        .ended("istio-proxy", 59, 29, 137)
        .restarted("istio-proxy", 28);
    assert_eq!(troubles(&again), ["nonzero-exit-code"], "it runs again");
}
