//! A sidecar without a quit endpoint, in a pod that finishes.
//!
//! usher then takes the next step of the recipe, usually a signal. The finding is a hint if that step ends the sidecar
//! with 0, and an error once the sidecar has outlived its steps. Consul's endpoint cannot be disabled.

use usher_core::{
    plan::Sidecar,
    pod::image,
    recipe::{
        ExitCode, Version,
        step::{Request, Step},
    },
    settings::annotation,
};

use super::{Finding, Id, Severity, short, stays};
use crate::explain::{
    Case,
    facts::{Container, State},
};

struct Off {
    endpoint: &'static str,
    port: u16,
    source: String,
    message: String,
    remedy: &'static str,
    how: String,
}

pub(in crate::explain) fn find(case: &Case<'_>) -> Vec<Finding> {
    if !case.finishes() || case.is_over() {
        return Vec::new();
    }
    case.sidecars()
        // A sidecar that has ended needs no endpoint.
        .filter(|(_, container)| !matches!(container.status.state, State::Ended(_)))
        .filter_map(|(sidecar, container)| {
            let off = off(case, sidecar, container)?;
            Some(finding(case, sidecar, container, off))
        })
        .collect()
}

fn finding(case: &Case<'_>, sidecar: &Sidecar, container: &Container, off: Off) -> Finding {
    let (name, endpoint) = (&container.name, off.endpoint);
    let is_off = |step: &Step| matches!(step, Step::Request(request) if request.port == off.port);
    let mut steps = sidecar.ladder.iter();
    let other =
        steps.find(|ladder_step| ladder_step.code == ExitCode::ZERO && !is_off(&ladder_step.step));
    let other = other.map(|ladder_step| &ladder_step.step);
    let severity = match (stays::stays(case, container), other) {
        (true, _) => Severity::Error,
        (false, None) => Severity::Warning,
        (false, Some(_)) => Severity::Hint,
    };
    let then = match other {
        Some(step) => format!("{step} remains"),
        None => "no other step ends it with exit code 0".to_owned(),
    };
    let problem = format!("sidecar {name} has no quit endpoint ({endpoint} is off); {then}");
    let socket = case.listens(off.port).map(|listens| match listens {
        false => "no listener",
        true => "a listener, for other paths",
    });
    let remedy = match other.filter(|_| !case.enforces_quit()) {
        Some(step) => {
            let action = format!("end it by {step}");
            let (remedy, how) = case.enable(&action, annotation::QUIT);
            format!("{} Or {remedy}: {how}", off.remedy)
        }
        None => off.remedy.to_owned(),
    };
    Finding::new(Id::QuitEndpointOff, severity, problem)
        .about(name)
        .because(off.source, off.message)
        .because_any(socket.map(|message| (format!("socket :{}", off.port), message)))
        .fix(remedy, off.how)
}

fn off(case: &Case<'_>, sidecar: &Sidecar, container: &Container) -> Option<Off> {
    match &*sidecar.recipe {
        "istio" => istio(case, container),
        "linkerd" => linkerd(case, sidecar, container),
        "cloud-sql-proxy" => cloud_sql(sidecar, container),
        "vault-agent" => vault(case, container),
        "kuma" => kuma(sidecar, container),
        _ => None,
    }
}

fn istio(case: &Case<'_>, container: &Container) -> Option<Off> {
    const PORT: &str = "status.sidecar.istio.io/port";
    let by_flag = container.flag("--statusPort").filter(|port| *port == "0");
    let (source, message) = match (case.facts.annotation(PORT), by_flag) {
        (Some("0"), _) => (Case::annotation_path(PORT), "\"0\""),
        (_, Some(_)) => (container.place.clone(), "--statusPort 0"),
        _ => return None,
    };
    Some(Off {
        endpoint: "POST :15020/quitquitquit",
        port: 15020,
        source,
        message: message.to_owned(),
        remedy: "Enable the proxy's status port.",
        how: Case::template_annotation(PORT, "15020"),
    })
}

fn linkerd(case: &Case<'_>, sidecar: &Sidecar, container: &Container) -> Option<Off> {
    const ENABLED: &str = "LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED";
    const KEY: &str = "config.linkerd.io/proxy-admin-shutdown";
    /// The endpoint cannot be disabled before this version.
    const OPTIONAL_SINCE: Version = Version {
        major: 2,
        minor: 16,
    };
    let tag = image::tag(&container.image).unwrap_or_default();
    let version: Option<Version> = tag.trim_start_matches("stable-").parse().ok();
    let (is_on, source, message) = match (container.variable(ENABLED), case.facts.annotation(KEY)) {
        (Some(value), _) => (value == "true", container.env_path(ENABLED), short(value)),
        (None, Some(value)) => (value == "enabled", Case::annotation_path(KEY), short(value)),
        (None, None) => (
            version.is_some_and(|version| version.major == 2 && version < OPTIONAL_SINCE),
            container.env_path(ENABLED),
            "absent; off by default from 2.16 on".to_owned(),
        ),
    };
    (!is_on).then(|| Off {
        endpoint: "POST :4191/shutdown",
        port: request(sidecar).map_or(4191, |request| request.port),
        source,
        message,
        remedy: "Enable the endpoint by the pod's annotation.",
        how: Case::template_annotation(KEY, "enabled"),
    })
}

fn cloud_sql(sidecar: &Sidecar, container: &Container) -> Option<Off> {
    request(sidecar).is_none().then(|| Off {
        endpoint: "POST :9091/quitquitquit",
        port: 9091,
        source: container.path("args"),
        message: "no --quitquitquit".to_owned(),
        remedy: "Start the proxy with its quit endpoint, or with --exit-zero-on-sigterm.",
        how: "args: [\"--quitquitquit\", \"--exit-zero-on-sigterm\"]    # and the other arguments"
            .to_owned(),
    })
}

fn vault(case: &Case<'_>, container: &Container) -> Option<Off> {
    const KEY: &str = "vault.hashicorp.com/agent-enable-quit";
    let value = case.facts.annotation(KEY);
    // Another Vault container may enable the endpoint in its configuration file, which usher does not read.
    (container.name == "vault-agent" && value != Some("true")).then(|| Off {
        endpoint: "POST /agent/v1/quit",
        port: 8200,
        source: Case::annotation_path(KEY),
        message: value.map_or("absent; off by default".to_owned(), short),
        remedy: "Enable the endpoint by the pod's annotation.",
        how: Case::template_annotation(KEY, "true"),
    })
}

fn kuma(sidecar: &Sidecar, container: &Container) -> Option<Off> {
    request(sidecar).is_none().then(|| Off {
        endpoint: "POST :9901/quitquitquit",
        port: 9901,
        source: container.path("image"),
        message: format!("{}; its admin interface is a Unix socket from 2.14 on", short(&container.image)),
        remedy: "No change is needed where usher sends SIGTERM, on which the sidecar drains for 30 s.",
        how: Case::template_annotation(annotation::QUIT, "true"),
    })
}

fn request(sidecar: &Sidecar) -> Option<&Request> {
    let mut steps = sidecar.ladder.iter().map(|ladder_step| &ladder_step.step);
    steps.find_map(|step| match step {
        Step::Request(request) => Some(request),
        Step::Signal { .. } => None,
    })
}
