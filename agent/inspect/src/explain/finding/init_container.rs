//! An init container that cannot connect: the mesh redirects its connections to a proxy that starts after it.
//!
//! Capture rules apply to the whole network namespace, from the moment when an init container or a CNI plugin creates them.
//! A proxy that is a regular container starts once every init container ended, so until then nothing listens at the port
//! that connections are redirected to, and each of them is refused. usher does not hold them: the proxy would never start.

mod mesh;

use usher_core::recipe::Stage;

use super::{Finding, Id, NOT_VISIBLE};
use crate::explain::{
    Case,
    facts::{Container, Ended, State},
};

/// Init containers that create the capture rules. Connections of later init containers are captured.
const CREATORS: [&str; 7] = [
    "istio-init",
    "linkerd-init",
    "kuma-init",
    "consul-connect-inject-init",
    "osm-init",
    "proxyinit",
    "nginx-mesh-init",
];
/// Init containers that check the rules of a CNI plugin, which exist before the first container.
const VALIDATORS: [&str; 3] = [
    "istio-validation",
    "linkerd-network-validator",
    "kuma-validation",
];
/// The user of the proxy of Istio, Kuma and AWS App Mesh, and of Linkerd and Consul: its connections are not redirected.
const PROXY_USERS: [u32; 3] = [1337, 2102, 5995];
/// An init container that runs longer is assumed to wait for a connection.
const BRIEF_MS: u64 = 3_000;
/// The same limit if the number of connection attempts is unknown.
const LONG_MS: u64 = 60_000;
/// Vault's init container, and the annotation that makes it the first one.
const VAULT: (&str, &str) = ("vault-agent-init", "vault.hashicorp.com/agent-init-first");

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    if case.is_over()
        || case
            .facts
            .containers
            .iter()
            .any(|one| one.started_ms().is_some())
    {
        return None;
    }
    let init = case.facts.init.iter().find(|init| is_stuck(case, init))?;
    let proxy = proxy_after(case, init).filter(|proxy| !is_exempt(init, proxy))?;
    let rules = capture(case, init)?;
    let attempts = case.seen.attempts;
    let exclusion = mesh::exclusions().find(|key| case.facts.annotation(key).is_some());
    let is_known = match (attempts, exclusion) {
        (Some(attempts), _) if attempts.failed > 0 => true,
        // Without a failed connection it waits for something else. With an exclusion, some may pass.
        (Some(_), _) | (None, Some(_)) => return None,
        (None, None) => false,
    };
    let (name, proxy_name) = (&init.name, &proxy.name);
    let state = match failed_run(init) {
        Some(end) => format!("ended with exit code {}", end.code),
        None => "cannot finish".to_owned(),
    };
    let problem = format!(
        "init container {name} {state}: the mesh redirects its connections to {proxy_name}, which starts after it, so they \
         are refused"
    );
    let finding = match is_known {
        true => Finding::error(Id::InitBeforeProxy, problem),
        false => Finding::warning(Id::InitBeforeProxy, problem),
    };
    let message = match (&init.status.state, failed_run(init)) {
        (State::Running(Some(at)), None) => format!("running for {}", case.since(*at)),
        (_, Some(end)) => format!("exit code {}, {} restarts", end.code, init.status.restarts),
        _ => "running".to_owned(),
    };
    let attempts = match attempts {
        Some(attempts) => (
            "/proc/PID/net/snmp".to_owned(),
            format!(
                "{} of {} connection attempts in the pod failed",
                attempts.failed, attempts.all
            ),
        ),
        None => (
            NOT_VISIBLE.to_owned(),
            "whether its connections are refused: its log shows it".to_owned(),
        ),
    };
    let exclusion = exclusion.and_then(|key| {
        let value = case.facts.annotation(key)?;
        Some((Case::annotation_path(key), super::short(value)))
    });
    let finding = finding
        .about(name)
        .because(init.status_path(), message)
        .because(rules.0, rules.1)
        .because(proxy.place.clone(), format!("{proxy_name} has not started"))
        .because(attempts.0, attempts.1)
        .because_any(exclusion);
    Some(finding.fix(
        format!(
            "Make {proxy_name} a native sidecar that starts before {name}, or run {name} as the proxy's user, or exclude \
             the ports that it connects to."
        ),
        remedies(case, init, proxy),
    ))
}

/// The settings that give the init container a network, a line for each.
fn remedies(case: &Case<'_>, init: &Container, proxy: &Container) -> String {
    let mesh = mesh::of(case, proxy);
    let annotation =
        |key: &str, value: &str| format!("{key}: \"{value}\"    # an annotation of the pod");
    let native = mesh.and_then(|mesh| mesh.native);
    let (vault, first) = VAULT;
    let user = proxy_user(case, proxy);
    [
        (init.name == vault).then(|| annotation(first, "true")),
        native.map(|key| annotation(key, "true")),
        Some(format!(
            "securityContext: {{runAsUser: {user}}}    # of {}",
            init.name
        )),
        mesh.map(|mesh| annotation(mesh.exclude_ports, "5432")),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join("\n")
}

/// Whether an init container failed, or has run longer than the limit.
fn is_stuck(case: &Case<'_>, init: &Container) -> bool {
    if init.is_native || is_of_mesh(init) {
        return false;
    }
    let brief = match case.seen.attempts {
        Some(_) => BRIEF_MS,
        None => LONG_MS,
    };
    let is_long = |at: u64| case.seen.now_ms.saturating_sub(at) > brief;
    match &init.status.state {
        State::Running(at) => at.is_some_and(is_long) || failed_run(init).is_some(),
        State::Waiting(_) | State::Ended(_) => failed_run(init).is_some(),
    }
}

fn is_of_mesh(init: &Container) -> bool {
    let name = &&init.name[..];
    CREATORS.contains(name) || VALIDATORS.contains(name)
}

fn failed_run(init: &Container) -> Option<&Ended> {
    init.newest_end().filter(|end| end.code != 0)
}

/// The mesh's proxy, if it starts after this init container.
fn proxy_after<'pod>(case: &Case<'pod>, init: &Container) -> Option<&'pod Container> {
    let mut later = case.facts.init.iter();
    // Advances to the init container itself.
    later.find(|found| found.name == init.name)?;
    let native = later.find(|found| found.is_native && mesh::is_proxy(found) && !found.runs());
    let mut regular = case
        .sidecars()
        .filter(|(sidecar, _)| sidecar.stage == Stage::Mesh && !sidecar.held_ports.is_empty());
    native.or_else(|| regular.next().map(|(_, proxy)| proxy))
}

fn is_exempt(init: &Container, proxy: &Container) -> bool {
    let user = init.user;
    user.is_some() && (user == proxy.user || user.is_some_and(|user| PROXY_USERS.contains(&user)))
}

fn proxy_user(case: &Case<'_>, proxy: &Container) -> u32 {
    let mut sidecars = case.plan.sidecars.iter();
    let sidecar = sidecars.find(|sidecar| sidecar.name == proxy.name);
    let known = sidecar.and_then(|sidecar| sidecar.identity.users.first().copied());
    proxy.user.or(known).unwrap_or(1337)
}

/// The evidence that the capture rules apply to this init container.
fn capture(case: &Case<'_>, init: &Container) -> Option<(String, String)> {
    if let Some(chain) = &case.seen.redirect {
        let message = "redirects outbound connections".to_owned();
        return Some((format!("nftables chain {chain}"), message));
    }
    let all = case.facts.init.iter();
    let before = all.clone().take_while(|found| found.name != init.name);
    let mut before = before.filter(|found| CREATORS.contains(&&found.name[..]));
    let mut validators = all.filter(|found| VALIDATORS.contains(&&found.name[..]));
    let shown = before.next().map(|one| (one, "creates the capture rules"));
    let checked =
        "checks the capture rules of a CNI plugin, which exist before the first container";
    let (container, message) = shown.or_else(|| Some((validators.next()?, checked)))?;
    Some((
        container.path("name"),
        format!("{} {message}", container.name),
    ))
}
