//! Probes of the kubelet that do not reach the app behind Istio's proxy.
//!
//! The kubelet has no certificate of the mesh. So the injector rewrites `httpGet`, `tcpSocket` and `grpc` to a path of
//! pilot-agent's status port, which probes the app from inside the pod, and keeps the originals in a variable of the
//! proxy. `exec` needs no rewrite. A mesh with strict mTLS rejects a probe that is not rewritten. A pod template that
//! was copied from an injected pod has rewritten probes, but the new proxy does not have the originals.

use serde_json::Value;

use super::{
    Finding, Id, NOT_VISIBLE, end::exit_code::OUT_OF_MEMORY, short, sidecar_state::ended_recently,
};
use crate::explain::{
    Case,
    case::millis,
    date::clock,
    facts::{Act, Container, Ended, Probe, State},
};

const REWRITE: &str = "sidecar.istio.io/rewriteAppHTTPProbers";
const EXCLUDED: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
/// The variable in which the injector keeps the probes that it rewrites.
const PROBERS: &str = "ISTIO_KUBE_APP_PROBERS";
const REWRITTEN: &str = "/app-health/";
const READINESS: &str = "readinessProbe";
const LIVENESS: &str = "livenessProbe";
const STARTUP: &str = "startupProbe";

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let Some(proxy) = case.istio().filter(|proxy| proxy.status.ready) else {
        return Vec::new();
    };
    case.apps()
        .flat_map(|app| app.probes.iter().map(move |probe| (app, probe)))
        .filter(|(app, probe)| fails(case, app, probe))
        .filter_map(|(app, probe)| {
            let finding = match &probe.act {
                Act::Http { path, .. } if path.starts_with(REWRITTEN) => {
                    unknown_path(proxy, app, probe, path)
                }
                Act::Http { port, .. } => not_rewritten(case, app, probe, "httpGet", *port),
                Act::Grpc { port } => not_rewritten(case, app, probe, "grpc", *port),
                // The proxy accepts every connection, so a TCP probe succeeds; exec needs no rewrite.
                Act::Tcp { .. } | Act::Other => None,
            };
            let (restarts, ready) = (app.status.restarts, app.status.ready);
            let started = clock(app.started_ms().unwrap_or_default());
            let since = match restarts {
                0 => format!("ready {ready}, since {started}"),
                _ => format!("restartCount {restarts}, ready {ready}"),
            };
            Some(finding?.about(&app.name).because(app.status_path(), since))
        })
        .collect()
}

fn unknown_path(proxy: &Container, app: &Container, probe: &Probe, path: &str) -> Option<Finding> {
    let known: Option<Value> = proxy
        .variable(PROBERS)
        .and_then(|text| serde_json::from_str(text).ok());
    let message = match &known {
        Some(known) if known.get(path).is_some() => return None,
        Some(_) => "has other paths",
        None => "absent",
    };
    let (field, name) = (probe.field, &app.name);
    let problem = format!(
        "the {field} of {name} requests a path that pilot-agent does not know: the pod template was copied from an injected \
         pod"
    );
    Some(
        Finding::error(Id::ProbeLost, problem)
            .because(format!("{}.{field}.httpGet.path", app.place), short(path))
            .because(proxy.env_path(PROBERS), message)
            .fix(
                "Restore the app's own path and port of the probe in the template; the injector rewrites them.",
                format!("{field}:\n  httpGet: {{path: /healthz, port: 8080}}"),
            ),
    )
}

fn not_rewritten(
    case: &Case<'_>,
    app: &Container,
    probe: &Probe,
    kind: &str,
    port: u16,
) -> Option<Finding> {
    if is_excluded(case, port) || case.listens(port) == Some(false) {
        return None;
    }
    let (field, name) = (probe.field, &app.name);
    let problem = format!(
        "the {field} of {name} fails because Istio did not rewrite it: the kubelet has no certificate for a mesh with \
         strict mTLS"
    );
    let absent = "absent; the mesh's setting applies";
    let rewrite = case
        .facts
        .annotation(REWRITE)
        .map_or(absent.to_owned(), short);
    Some(
        Finding::error(Id::ProbeLost, problem)
            .because(app.path(&format!("{field}.{kind}.port")), port.to_string())
            .because(Case::annotation_path(REWRITE), rewrite)
            .because(
                NOT_VISIBLE,
                "whether a PeerAuthentication requires mTLS is not on the node",
            )
            .fix(
                "Let Istio rewrite the pod's probes, or exclude the port from the mesh.",
                Case::template_annotation(REWRITE, "true"),
            ),
    )
}

fn is_excluded(case: &Case<'_>, port: u16) -> bool {
    let excluded = case.facts.annotation(EXCLUDED).unwrap_or_default();
    let mut ports = excluded.split(',').map(str::trim);
    ports.any(|one| one == port.to_string())
}

/// Whether the status shows that a probe fails after two periods.
fn fails(case: &Case<'_>, app: &Container, probe: &Probe) -> bool {
    let due = millis(probe.initial_delay + probe.period * 2);
    let unready = match app.status.state {
        State::Running(Some(since)) => {
            !app.status.ready && case.seen.now_ms.saturating_sub(since) >= due
        }
        _ => false,
    };
    match probe.field {
        // Until the startup probe succeeds, the kubelet runs no other probe.
        READINESS => unready && app.probes.iter().all(|probe| probe.field != STARTUP),
        // A failed liveness probe does not make a container unready.
        LIVENESS => was_killed(case, app),
        _ => was_killed(case, app) || unready,
    }
}

/// Whether a signal ended the last run, recently. The kubelet sends one after a failed probe, the kernel one for memory.
fn was_killed(case: &Case<'_>, app: &Container) -> bool {
    let by_signal = |end: &&Ended| matches!(end.code, 137 | 143) && end.reason != OUT_OF_MEMORY;
    let last = app.status.last.as_ref().filter(by_signal);
    let is_recent = |end: &Ended| app.is_waiting() || ended_recently(case, end);
    app.status.restarts > 0 && last.is_some_and(is_recent)
}
