//! Probes of the kubelet that do not reach the app behind Istio's proxy.
//!
//! The kubelet has no certificate of the mesh. So the injector rewrites `httpGet`, `tcpSocket` and `grpc` to a path of
//! pilot-agent's status port, which asks the app from inside the pod; the originals stand in a variable of the proxy.
//! `exec` needs none of it. What is not rewritten is refused where the mesh insists on mTLS; what was rewritten once and is
//! injected again, as a pod's YAML that was copied from a running one, is known to no proxy.

use serde_json::Value;

use super::{
    Case, Finding, Id, Severity,
    date::clock,
    early_start::status_of,
    facts::{Act, Container, Probe, State},
    finding::short,
};

const REWRITE: &str = "sidecar.istio.io/rewriteAppHTTPProbers";
const EXCLUDED: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
/// Where the injector keeps the probes that it has rewritten.
const PROBERS: &str = "ISTIO_KUBE_APP_PROBERS";
const REWRITTEN: &str = "/app-health/";

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let Some(proxy) = case.istio().filter(|proxy| proxy.status.ready) else {
        return Vec::new();
    };
    let apps = case.apps();
    let probes = apps.flat_map(|app| app.probes.iter().map(move |probe| (app, probe)));
    let failing = probes.filter(|(app, probe)| fails(case, app, probe));
    let found = failing.filter_map(|(app, probe)| {
        let lost = lost(case, proxy, app, probe)?;
        let state = if app.status.restarts > 0 {
            format!(
                "restartCount {}, ready {}",
                app.status.restarts, app.status.ready
            )
        } else {
            format!(
                "ready {}, since {}",
                app.status.ready,
                clock(app.started_ms().unwrap_or_default())
            )
        };
        Some(lost.about(&app.name).by(status_of(app), state))
    });
    found.collect()
}

fn lost(case: &Case<'_>, proxy: &Container, app: &Container, probe: &Probe) -> Option<Finding> {
    let field = format!("{}.{}", app.place, probe.field);
    let name = &app.name;
    let finding = |problem: String| Finding::new(Id::ProbeLost, Severity::Error, problem);
    if let Act::Http { path, .. } = &probe.act
        && path.starts_with(REWRITTEN)
    {
        let known: Option<Value> = proxy
            .variable(PROBERS)
            .and_then(|text| serde_json::from_str(text).ok());
        let is_known = known
            .as_ref()
            .is_some_and(|known| known.get(path).is_some());
        let problem = format!(
            "the {} of {name} asks pilot-agent for a path that it does not know: the pod's template was copied from a pod that \
             had been injected",
            probe.field
        );
        let says = match known {
            Some(_) => "has other paths only".to_owned(),
            None => "absent".to_owned(),
        };
        return (!is_known).then(|| {
            finding(problem)
                .by(format!("{field}.httpGet.path"), short(path))
                .by(format!("{}.env[{PROBERS}]", proxy.place), says)
                .mend(
                    "Give the template the app's own probe again, with its own path and port; the injector rewrites it.",
                    format!("{}:\n  httpGet: {{path: /healthz, port: 8080}}", probe.field),
                )
        });
    }
    let (kind, port) = match probe.act {
        Act::Http { port, .. } => ("httpGet", port),
        Act::Grpc { port } => ("grpc", port),
        // The proxy accepts every connection, so this one succeeds whatever the app does; and a command is none.
        Act::Tcp { .. } | Act::Other => return None,
    };
    if is_excluded(case, port) || case.listens(port) == Some(false) {
        return None;
    }
    let problem = format!(
        "the {} of {name} was not rewritten by Istio, and fails: the kubelet has no certificate for a mesh that insists on mTLS",
        probe.field
    );
    let (source, says) = match case.facts.annotation(REWRITE) {
        Some(value) => (format!("metadata.annotations[{REWRITE}]"), short(value)),
        None => (
            format!("metadata.annotations[{REWRITE}]"),
            "absent; the mesh's own setting counts".to_owned(),
        ),
    };
    let finding = finding(problem)
        .by(format!("{field}.{kind}.port"), port.to_string())
        .by(source, says)
        .by(
            "not seen",
            "whether a PeerAuthentication insists on mTLS is not on the node",
        );
    Some(finding.mend(
        "Have Istio rewrite the probes of this pod, or leave the port out of the mesh.",
        Case::template_annotation(REWRITE, "true"),
    ))
}

fn is_excluded(case: &Case<'_>, port: u16) -> bool {
    let excluded = case.facts.annotation(EXCLUDED).unwrap_or_default();
    excluded
        .split(',')
        .any(|one| one.trim() == port.to_string())
}

/// Whether a probe fails: as far as the status tells, once it has had its time.
fn fails(case: &Case<'_>, app: &Container, probe: &Probe) -> bool {
    let due = probe.initial_delay + probe.period * 2;
    let due = u64::try_from(due.as_millis()).unwrap_or(u64::MAX);
    let State::Running {
        since_ms: Some(since),
    } = app.status.state
    else {
        return probe.field != "readinessProbe" && was_killed(app);
    };
    match probe.field {
        "readinessProbe" => {
            // While a startup probe fails no other is made.
            let starts = app.probes.iter().any(|probe| probe.field == "startupProbe");
            !app.status.ready && !starts && case.seen.now_ms.saturating_sub(since) >= due
        }
        _ => was_killed(app) || !app.status.ready && case.seen.now_ms.saturating_sub(since) >= due,
    }
}

/// Whether its last run was ended from outside, as the kubelet does.
fn was_killed(app: &Container) -> bool {
    let killed = app
        .status
        .last
        .as_ref()
        .is_some_and(|end| matches!(end.code, 137 | 143));
    app.status.restarts > 0 && killed
}
