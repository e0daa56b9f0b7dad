//! Istio's own hold that does not work.
//!
//! With `holdApplicationUntilProxyStarts` the injector makes the proxy the first regular container and gives it a
//! `postStart` hook that waits until the proxy is ready, so that the kubelet does not start the next container. A custom
//! lifecycle, in the pod or in the mesh's values, replaces the hook. Another injector may put containers before the proxy.

use serde::Deserialize;
use usher_core::{
    decision::timeline::{Detail, Entry},
    settings::annotation,
};

use super::{Finding, Id, Severity, has_started_well, short};
use crate::explain::{Case, case::SUCCEEDED, facts::Container};

const CONFIG: &str = "proxy.istio.io/config";
/// A longer configuration is shortened to the relevant field.
const LONGEST_CONFIG: usize = 80;

#[derive(Deserialize)]
struct ProxyConfig {
    #[serde(rename = "holdApplicationUntilProxyStarts")]
    hold: Option<bool>,
}

/// Whether the proxy's hook delays the containers after it until the proxy is ready.
pub(in crate::explain) fn waits(proxy: &Container) -> bool {
    let words = &proxy.post_start;
    let in_shell = words.iter().any(|word| word.contains("pilot-agent wait"));
    let program = words.iter().any(|word| word.ends_with("pilot-agent"));
    in_shell || program && words.iter().any(|word| word == "wait")
}

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    // A gateway has no app that could wait.
    case.apps().next()?;
    let proxy = case.istio().filter(|proxy| !proxy.is_native)?;
    let name = &proxy.name;
    let before: Vec<&str> = case
        .facts
        .containers
        .iter()
        .take_while(|found| found.name != *name)
        .filter(|found| case.plan.is_app(&found.name))
        .map(|found| &found.name[..])
        .collect();
    let wanted = wanted(case, proxy);
    let hook = proxy.path("lifecycle.postStart");
    let command = short(&proxy.post_start.join(" "));
    let held = held(case);
    let severity = severity(case, held);
    if waits(proxy) {
        let first = before.first()?;
        let apps = before.join(", ");
        let problem = format!(
            "Istio does not hold the app: app {apps} comes before {name} in the pod and does not wait for it"
        );
        let (source, message) = wanted.unwrap_or((hook, command));
        let finding = Finding::new(Id::HoldLost, severity, problem)
            .about(first)
            .because(source, message)
            .because(
                proxy.path("name"),
                format!("{} comes after {apps}", proxy.place),
            )
            .because_of(held);
        return Some(match held.is_some() || case.enforces_hold() {
            true => finding.fix("Put the proxy first in the pod.", ""),
            false => {
                let action = "hold the app's connections in any order";
                let (remedy, how) = case.enable(action, annotation::HOLD);
                finding.fix(format!("Put the proxy first in the pod, or {remedy}."), how)
            }
        });
    }
    let (source, message) = wanted?;
    let found = match (proxy.has_post_start, &proxy.post_start[..]) {
        (false, _) => "absent",
        (true, []) => "no command",
        (true, _) => &command,
    };
    let problem = format!(
        "Istio does not hold the app: a custom lifecycle replaced the postStart hook of {name}"
    );
    let apps = (!before.is_empty()).then(|| before.join(", "));
    let finding = Finding::new(Id::HoldLost, severity, problem)
        .about(name)
        .because(source, message)
        .because(hook, format!("{found}; Istio's own is: pilot-agent wait"))
        .because_any(apps.map(|apps| {
            (
                "spec.containers".to_owned(),
                format!("{apps} before {name}"),
            )
        }))
        .because_of(held);
    Some(finding.fix(
        "Restore the proxy's hook, in the pod template or in values.global.proxy.lifecycle.",
        "lifecycle:\n  postStart:\n    exec:\n      command: [pilot-agent, wait]",
    ))
}

/// The decision of usher to hold the app's connections.
fn held<'pod>(case: &Case<'pod>) -> Option<&'pod Entry> {
    case.newest(|detail| {
        matches!(
            detail,
            Detail::HoldArmed { .. } | Detail::HoldAdopted { .. }
        )
    })
}

/// Nothing is wrong where usher holds the app until its proxy is ready, or the app does or has done its work.
fn severity(case: &Case<'_>, held: Option<&Entry>) -> Severity {
    let failed = case.newest(|detail| matches!(detail, Detail::HoldFailed));
    let holds = held.is_some() && failed.is_none() && !case.released_at_deadline();
    if holds || case.facts.phase == SUCCEEDED || has_started_well(case) {
        return Severity::Hint;
    }
    Severity::Error
}

/// The setting that enables Istio's hold: the pod's annotation, or the mesh's, if the injector records it.
fn wanted(case: &Case<'_>, proxy: &Container) -> Option<(String, String)> {
    let parse = |text: &str| serde_saphyr::from_str::<ProxyConfig>(text).ok()?.hold;
    let annotated = case.facts.annotation(CONFIG);
    let (source, text, wanted) = match annotated.and_then(|text| Some((text, parse(text)?))) {
        Some((text, wanted)) => (Case::annotation_path(CONFIG), text, wanted),
        None => {
            let text = proxy.variable("PROXY_CONFIG")?;
            (proxy.env_path("PROXY_CONFIG"), text, parse(text)?)
        }
    };
    let message = if text.len() > LONGEST_CONFIG {
        "holdApplicationUntilProxyStarts: true"
    } else {
        text.trim()
    };
    wanted.then(|| (source, message.to_owned()))
}
