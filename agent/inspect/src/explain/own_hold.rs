//! Istio's own hold that does not work.
//!
//! `holdApplicationUntilProxyStarts` is two things that the injector does: the proxy is the first regular container, and
//! its `postStart` hook waits until it is ready, which keeps the kubelet from starting the next one. A lifecycle of one's
//! own, in the pod or in the mesh's values, takes the place of the hook; containers that are injected by somebody else may
//! come before the proxy.

use serde::Deserialize;

use super::{Case, Finding, Id, Severity, facts::Container, finding::short};

const CONFIG: &str = "proxy.istio.io/config";

/// The part of a proxy's configuration that matters.
#[derive(Deserialize)]
struct ProxyConfig {
    #[serde(rename = "holdApplicationUntilProxyStarts")]
    hold: Option<bool>,
}

/// Whether a container's hook keeps those after it back until its proxy is ready.
pub(super) fn waits(proxy: &Container) -> bool {
    let mut words = proxy.post_start.iter();
    let agent =
        words.any(|word| word.ends_with("pilot-agent") || word.contains("pilot-agent wait"));
    let mut words = proxy.post_start.iter();
    agent && words.any(|word| word == "wait" || word.contains("pilot-agent wait"))
}

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let Some(proxy) = case.istio().filter(|proxy| !proxy.is_native) else {
        return Vec::new();
    };
    let mut regular = case.facts.containers.iter();
    let place = regular
        .position(|found| found.name == proxy.name)
        .unwrap_or_default();
    let before: Vec<&str> = case.facts.containers[..place]
        .iter()
        .filter(|found| case.plan.is_app(&found.name))
        .map(|found| &found.name[..])
        .collect();
    let wanted = wanted(case, proxy);
    let hook = format!("{}.lifecycle.postStart", proxy.place);
    match (waits(proxy), &before[..], wanted) {
        (true, [], _) | (false, _, None) => Vec::new(),
        (true, first, wanted) => {
            let problem = format!(
                "Istio's hold is lost: app {} comes before {} in the pod and does not wait for it",
                first.join(", "),
                proxy.name
            );
            let (source, says) =
                wanted.unwrap_or_else(|| (hook, short(&proxy.post_start.join(" "))));
            let place = format!("{} comes after {}", proxy.place, first.join(", "));
            let finding = Finding::new(Id::HoldLost, Severity::Error, problem)
                .about(first[0])
                .by(source, says)
                .by(format!("{}.name", proxy.place), place);
            vec![finding.mend(
                "Have the proxy come first, or have usher hold the app's connections whatever the order is.",
                case.enforce(usher_core::settings::annotation::HOLD),
            )]
        }
        (false, first, Some((source, says))) => {
            let found = match (proxy.has_post_start, &proxy.post_start[..]) {
                (false, _) => "absent; Istio's own is: pilot-agent wait".to_owned(),
                (true, []) => "no command; Istio's own is: pilot-agent wait".to_owned(),
                (true, words) => format!(
                    "{}; Istio's own is: pilot-agent wait",
                    short(&words.join(" "))
                ),
            };
            let problem = format!(
                "Istio's hold is lost: a lifecycle of one's own has taken the place of the hook by which {} is waited for",
                proxy.name
            );
            let mut finding = Finding::new(Id::HoldLost, Severity::Error, problem)
                .about(&proxy.name)
                .by(source, says)
                .by(hook, found);
            if !first.is_empty() {
                finding = finding.by(
                    "spec.containers",
                    format!("{} come before it", first.join(", ")),
                );
            }
            vec![finding.mend(
                "Give the proxy's lifecycle the hook that it lost, in the pod's template or in values.global.proxy.lifecycle.",
                "lifecycle:\n  postStart:\n    exec:\n      command: [pilot-agent, wait]",
            )]
        }
    }
}

/// Who wants Istio to hold: the pod's annotation, or the mesh, as far as the injector writes it down.
fn wanted(case: &Case<'_>, proxy: &Container) -> Option<(String, String)> {
    let reads = |text: &str| {
        let config = serde_saphyr::from_str::<ProxyConfig>(text);
        config.ok().and_then(|config| config.hold)
    };
    let annotation = case.facts.annotation(CONFIG);
    let annotated = annotation.and_then(|text| Some((text, reads(text)?)));
    let (source, says, wanted) = match annotated {
        Some((text, wanted)) => (format!("metadata.annotations[{CONFIG}]"), text, wanted),
        None => {
            let text = proxy.variable("PROXY_CONFIG")?;
            (
                format!("{}.env[PROXY_CONFIG]", proxy.place),
                text,
                reads(text)?,
            )
        }
    };
    let only = "holdApplicationUntilProxyStarts: true";
    let says = if says.len() > 80 {
        only.to_owned()
    } else {
        short(says.trim())
    };
    wanted.then_some((source, says))
}
