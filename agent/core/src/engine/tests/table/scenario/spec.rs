//! The words that describe a pod.

use std::time::Duration;

use crate::{
    engine::tests::stage::container,
    pod::{
        requests::Requests,
        restart_policy::{RestartPolicy, RestartRule},
        spec::{Container, KubeletProbe, Pod, ProbeKind},
    },
};

const LIVENESS: KubeletProbe = KubeletProbe {
    kind: ProbeKind::Liveness,
    in_container: false,
    initial_delay: Duration::ZERO,
    period: Duration::from_secs(10),
    failures: 3,
};

/// Applies a word to the pod's spec.
pub(super) fn describe(spec: &mut Pod, word: &str) {
    if let Some(policy) = policy(word) {
        spec.restart_policy = policy;
    } else if word == "host" {
        spec.host_network = true;
    } else if let Some(name) = word.strip_prefix("native=") {
        spec.native_sidecars.push(name.to_owned());
    } else if let Some(init) = word.strip_prefix("init=") {
        spec.init_restarters.push(described(init));
    } else if let Some(class) = word.strip_prefix("class=") {
        spec.runtime_class = Some(class.to_owned());
    } else if let Some(namespace) = word.strip_prefix("in=") {
        spec.namespace = namespace.to_owned();
    } else if let Some(image) = word.strip_prefix("image=") {
        let (name, image) = image.split_once('=').unwrap();
        described_as(spec, name).image = image.to_owned();
    } else if let Some(words) = word.strip_prefix("args=") {
        let (name, words) = words.split_once('=').unwrap();
        described_as(spec, name).words = words.split('_').map(str::to_owned).collect();
    } else if let Some(name) = word.strip_prefix("probe=") {
        described_as(spec, name).probes.push(LIVENESS);
    } else if let Some(name) = word.strip_prefix("resize=") {
        described_as(spec, name).restarts_on_resize = true;
    } else if let Some(requests) = word.strip_prefix("requests=") {
        let (name, requests) = requests.split_once('=').unwrap();
        let (cpu, memory) = requests.split_once(',').unwrap();
        let requests = Requests {
            cpu_millis: cpu.parse().unwrap(),
            memory_bytes: memory.parse().unwrap(),
        };
        described_as(spec, name).requests = requests;
        spec.requests = spec.requests + requests;
    } else if let Some(variable) = word.strip_prefix("env=") {
        let (name, variable) = variable.split_once('=').unwrap();
        let (key, value) = variable.split_once('=').unwrap();
        let environment = &mut described_as(spec, name).env;
        environment.insert(key.to_owned(), value.to_owned());
    } else {
        spec.containers.push(described(word));
    }
}

fn described_as<'spec>(spec: &'spec mut Pod, name: &str) -> &'spec mut Container {
    let mut containers = spec.containers.iter_mut();
    containers.find(|found| found.name == name).unwrap()
}

fn policy(word: &str) -> Option<RestartPolicy> {
    match word {
        "Never" => Some(RestartPolicy::Never),
        "OnFailure" => Some(RestartPolicy::OnFailure),
        "Always" => Some(RestartPolicy::Always),
        _ => None,
    }
}

fn described(word: &str) -> Container {
    let (word, rules) = word.split_once('[').unwrap_or((word, ""));
    let (name, own) = word.split_once(':').unwrap_or((word, ""));
    let mut made = container(name);
    made.image = match name {
        "sql" => "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0".to_owned(),
        "logs" => "cr.fluentbit.io/fluent/fluent-bit:3.1".to_owned(),
        "daprd" => "docker.io/daprio/daprd:1.14.0".to_owned(),
        _ => made.image,
    };
    made.restart_policy = policy(own);
    let rules = rules.split('[').filter(|rule| !rule.is_empty());
    made.restart_rules = rules
        .map(|rule| restart_rule(rule.trim_end_matches(']')))
        .collect();
    made
}

/// `42`, `!0,1`, `42=all`; `!` alone is an unknown rule.
fn restart_rule(text: &str) -> RestartRule {
    let (text, action) = text.split_once('=').unwrap_or((text, ""));
    let codes = text.trim_start_matches('!').split(',');
    let codes = codes.filter(|code| !code.is_empty());
    RestartRule {
        codes: codes.map(|code| code.parse().unwrap()).collect(),
        within: !text.starts_with('!'),
        whole_pod: action == "all",
    }
}
