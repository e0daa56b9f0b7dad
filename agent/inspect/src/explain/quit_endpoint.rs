//! A sidecar whose endpoint to quit by is switched off.
//!
//! It matters to pods whose work comes to an end. usher takes the next step of its ladder, a signal as a rule, so where
//! that ends the sidecar with 0 this is a hint only, until the sidecar does not end. Consul's endpoint is always there.

use usher_core::{
    plan::Sidecar,
    recipe::{
        Version,
        step::{Request, Step},
    },
    settings::{annotation, mode::Mode},
};

use super::{
    Case, Finding, Id, Severity,
    facts::{Container, State},
    finding::short,
};

/// What shows that an endpoint is off, and what would switch it on.
struct Off {
    endpoint: &'static str,
    port: u16,
    source: String,
    says: String,
    remedy: &'static str,
    how: String,
}

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    if !case.finishes() || case.is_over() {
        return Vec::new();
    }
    let found = case.sidecars().filter_map(|(sidecar, container)| {
        // One that has ended needs none any more.
        let off = off(case, sidecar, container)
            .filter(|_| !matches!(container.status.state, State::Ended(_)))?;
        Some(tell(case, sidecar, container, off))
    });
    found.collect()
}

fn tell(case: &Case<'_>, sidecar: &Sidecar, container: &Container, off: Off) -> Finding {
    let name = &container.name;
    let others = sidecar.ladder.iter().filter(|rung| {
        rung.code == 0 && !matches!(&rung.step, Step::Request(request) if request.port == off.port)
    });
    let other = others.map(|rung| &rung.step).next();
    let stays = super::stays::stays(case, container);
    let severity = match (stays, other) {
        (true, _) => Severity::Error,
        (false, None) => Severity::Warning,
        (false, Some(_)) => Severity::Hint,
    };
    let then = match other {
        Some(step) => format!("{step} is left"),
        None => "nothing is left that ends it with 0".to_owned(),
    };
    let problem = format!(
        "sidecar {name} has no endpoint to quit by ({} is off), and {then}",
        off.endpoint
    );
    let mut finding = Finding::new(Id::QuitEndpointOff, severity, problem)
        .about(name)
        .by(off.source, off.says);
    match case.listens(off.port) {
        Some(false) => finding = finding.by(format!("socket :{}", off.port), "nobody listens"),
        Some(true) => {
            finding = finding.by(format!("socket :{}", off.port), "listens, for other paths");
        }
        None => {}
    }
    let enforces = case
        .seen
        .modes
        .is_some_and(|modes| modes.quit == Mode::Enforce);
    let remedy = match other {
        Some(step) if !enforces => format!(
            "{} Or have usher end it by {step}: {}",
            off.remedy,
            case.enforce(annotation::QUIT)
        ),
        _ => off.remedy.to_owned(),
    };
    finding.mend(remedy, off.how)
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
    let (source, says) = match (case.facts.annotation(PORT), by_flag) {
        (Some("0"), _) => (format!("metadata.annotations[{PORT}]"), "\"0\"".to_owned()),
        (_, Some(_)) => (container.place.clone(), "--statusPort 0".to_owned()),
        _ => return None,
    };
    Some(Off {
        endpoint: "POST :15020/quitquitquit",
        port: 15020,
        source,
        says,
        remedy: "Let the proxy have its status port.",
        how: Case::template_annotation(PORT, "15020"),
    })
}

fn linkerd(case: &Case<'_>, sidecar: &Sidecar, container: &Container) -> Option<Off> {
    const ENABLED: &str = "LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED";
    const KEY: &str = "config.linkerd.io/proxy-admin-shutdown";
    /// Until then it was always there.
    const ALWAYS: Version = Version {
        major: 2,
        minor: 16,
    };
    let tag = usher_core::pod::image::tag(&container.image).unwrap_or_default();
    let version: Option<Version> = tag.trim_start_matches("stable-").parse().ok();
    let variable = container.variable(ENABLED);
    let annotation = case.facts.annotation(KEY);
    let is_on = match (variable, annotation) {
        (Some(value), _) => value == "true",
        (None, Some(value)) => value == "enabled",
        (None, None) => version.is_some_and(|version| version.major == 2 && version < ALWAYS),
    };
    let (source, says) = match (variable, annotation) {
        (Some(value), _) => (format!("{}.env[{ENABLED}]", container.place), short(value)),
        (None, Some(value)) => (format!("metadata.annotations[{KEY}]"), short(value)),
        (None, None) => (
            format!("{}.env[{ENABLED}]", container.place),
            "absent; off by default from 2.16 on".to_owned(),
        ),
    };
    (!is_on).then(|| Off {
        endpoint: "POST :4191/shutdown",
        port: request(sidecar).map_or(4191, |request| request.port),
        source,
        says,
        remedy: "Switch the endpoint on by the pod's annotation.",
        how: Case::template_annotation(KEY, "enabled"),
    })
}

fn cloud_sql(sidecar: &Sidecar, container: &Container) -> Option<Off> {
    request(sidecar).is_none().then(|| Off {
        endpoint: "POST :9091/quitquitquit",
        port: 9091,
        source: format!("{}.args", container.place),
        says: "no --quitquitquit".to_owned(),
        remedy: "Start the proxy with its endpoint, or with --exit-zero-on-sigterm.",
        how: "args: [\"--quitquitquit\", \"--exit-zero-on-sigterm\"]    # beside the others"
            .to_owned(),
    })
}

fn vault(case: &Case<'_>, container: &Container) -> Option<Off> {
    const KEY: &str = "vault.hashicorp.com/agent-enable-quit";
    let value = case.facts.annotation(KEY);
    // Only what the injector made is known to have no other way to say it.
    (container.name == "vault-agent" && value != Some("true")).then(|| Off {
        endpoint: "POST /agent/v1/quit",
        port: 8200,
        source: format!("metadata.annotations[{KEY}]"),
        says: value.map_or("absent; off by default".to_owned(), short),
        remedy: "Switch the endpoint on by the pod's annotation.",
        how: Case::template_annotation(KEY, "true"),
    })
}

fn kuma(sidecar: &Sidecar, container: &Container) -> Option<Off> {
    request(sidecar).is_none().then(|| Off {
        endpoint: "POST :9901/quitquitquit",
        port: 9901,
        source: format!("{}.image", container.place),
        says: format!("{}; its admin interface is a Unix socket from 2.14 on", short(&container.image)),
        remedy: "Nothing needs to be done where usher sends it SIGTERM, for which it drains for 30 s.",
        how: Case::template_annotation(annotation::QUIT, "true"),
    })
}

/// The request of its ladder, if there is one.
fn request(sidecar: &Sidecar) -> Option<&Request> {
    let mut steps = sidecar.ladder.iter().map(|rung| &rung.step);
    steps.find_map(|step| match step {
        Step::Request(request) => Some(request),
        Step::Signal { .. } => None,
    })
}
