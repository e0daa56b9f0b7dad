//! Every pod has an explanation of bounded size.

use proptest::prelude::*;
use serde_json::json;
use usher_core::hold::Released;

use super::{
    Detail,
    pods::{ARMED, QUIT_ACCEPTED, Scenario, app, istio, job, released, would_hold},
};
use crate::explain::OnTerm;

fn state() -> impl Strategy<Value = (u8, u64, u64, i32)> {
    (
        0..4_u8,
        0..3600_u64,
        0..3600_u64,
        prop::sample::select(vec![0, 1, 137, 143, -1, i32::MAX]),
    )
}

fn put(scenario: Scenario, name: &str, (kind, one, other, code): (u8, u64, u64, i32)) -> Scenario {
    match kind {
        0 => scenario,
        1 => scenario.running(name, one),
        2 => scenario.ended(name, one, other, code),
        _ => scenario
            .ended(name, one, other, code)
            .restarted(name, other / 2),
    }
}

/// Decisions that findings depend on, and others.
fn details() -> Vec<Detail> {
    vec![
        Detail::GaveUp,
        Detail::NotHeld,
        Detail::Waiting,
        Detail::WouldQuit,
        ARMED,
        QUIT_ACCEPTED,
        released(Released::Deadline, 1),
        released(Released::Ready, 0),
        would_hold(0),
        would_hold(2),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_pod_is_explained(
        app_state in state(),
        proxy_state in state(),
        policy in prop::sample::select(vec!["Never", "OnFailure", "Always"]),
        first in any::<bool>(),
        text in "\\PC{0,200}",
        port in any::<u16>(),
        deadline in prop::option::of(any::<u64>()),
        detail in prop::sample::select(details()),
    ) {
        let app = app(json!({
            "ports": [{"name": text, "containerPort": port}],
            "livenessProbe": {"httpGet": {"path": text, "port": port}},
        }));
        let hook = json!({"lifecycle": {"postStart": {"exec": {"command": [text]}}}});
        let containers = if first { vec![istio(hook), app] } else { vec![app, istio(hook)] };
        let scenario = Scenario::new(job(&containers)).policy(policy).annotation("proxy.istio.io/config", &text);
        let scenario = put(put(scenario, "app", app_state), "istio-proxy", proxy_state);
        let scenario = scenario.decided(30, detail, &text).process("istio-proxy", 1, "sh", &[&text], OnTerm::Default);
        let scenario = match deadline {
            Some(seconds) => scenario.deadline(seconds),
            None => scenario,
        };
        let explanation = scenario.explain();
        prop_assert!(explanation.findings.len() <= 12, "{:#?}", explanation.findings);
        let trouble = explanation.findings.iter().any(|one| one.severity.is_trouble());
        prop_assert!(!(trouble && explanation.verdict.healthy));
        for finding in &explanation.findings {
            prop_assert!(finding.problem.chars().count() < 600 && !finding.evidence.is_empty());
        }
        let ordered = explanation.timeline.is_sorted_by_key(|moment| moment.at_ms);
        prop_assert!(ordered);
    }
}
