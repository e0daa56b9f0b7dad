//! Pods from public issues, charts and injectors, with the plan that usher makes for them: `field.yaml` has both.
//!
//! `USHER_BLESS=1` rewrites the plans; review the difference then.

use std::{collections::BTreeSet, fmt::Write as _, sync::LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    hold::Probe,
    plan::{Plan, version_query::VersionQueries},
    pod::{list, spec::Pod},
    recipe::{ExitCode, Stage},
    settings::{config::Config, overrides::NamespaceValues},
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/recipe/tests/field.yaml");
const TEXT: &str = include_str!("field.yaml");

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Case {
    pub(crate) case: String,
    source: String,
    #[serde(default)]
    annotations: serde_json::Value,
    #[serde(default)]
    security_context: serde_json::Value,
    containers: serde_json::Value,
    #[serde(default)]
    plan: Vec<String>,
}

pub(crate) fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| serde_saphyr::from_str(TEXT).unwrap());
    &CASES
}

/// The pod of a case, as the kubelet lists it.
pub(crate) fn pod_of(name: &str) -> Pod {
    let mut cases = cases().iter();
    cases.find(|case| case.case == name).unwrap().pod()
}

impl Case {
    pub(crate) fn pod(&self) -> Pod {
        let list = json!({"items": [{
            "metadata": {
                "namespace": "shop", "name": "report", "uid": "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11",
                "annotations": self.annotations,
            },
            "spec": {
                "restartPolicy": "Never", "securityContext": self.security_context, "containers": self.containers,
            },
        }]});
        let reads = Config::default().reads();
        let parsed = list::parse(list.to_string().as_bytes(), &reads).unwrap();
        assert!(parsed.skipped.is_empty(), "{}", self.case);
        parsed.pods.into_iter().next().unwrap()
    }
}

impl Case {
    /// The recipes of its containers.
    pub(super) fn recipes(&self) -> Vec<String> {
        let config = Config::default();
        let namespace = NamespaceValues::default();
        let plan = Plan::of(&self.pod(), &config, &namespace, &VersionQueries::default());
        let sidecars = plan.sidecars.iter().map(|one| one.recipe.to_string());
        let self_ending = plan.self_ending.iter().map(|one| one.recipe.to_string());
        sidecars.chain(self_ending).collect()
    }
}

/// The plan of a pod: a line for each container, for each held port, and for the exempt users and groups.
fn plan(pod: &Pod) -> Vec<String> {
    let plan = Plan::of(
        pod,
        &Config::default(),
        &NamespaceValues::default(),
        &VersionQueries::default(),
    );
    let mut lines = Vec::new();
    for container in &pod.containers {
        let name = &container.name;
        if plan.is_app(name) {
            lines.push(format!("{name}: app"));
        }
        if let Some(found) = plan.self_ending.iter().find(|one| one.name == *name) {
            lines.push(format!("{name}: {}, ends by itself", found.recipe));
        }
        let Some(sidecar) = plan.sidecars.iter().find(|one| one.name == *name) else {
            continue;
        };
        let mut line = format!("{name}: {}, {}", sidecar.recipe, sidecar.stage.into_str());
        for step in &sidecar.ladder {
            write!(line, "; {}", step.step).unwrap();
            if step.code != ExitCode::ZERO {
                write!(line, " ({})", step.code).unwrap();
            }
            if !step.takes.is_zero() {
                write!(line, " {:?}", step.takes).unwrap();
            }
        }
        lines.push(line);
    }
    for claim in plan.claims() {
        let until = match &claim.probe {
            Probe::Listens { port } => format!(":{port} listens"),
            Probe::Answers { port, path } => format!("GET :{port}{path}"),
        };
        let dns = if claim.dns { " DNS" } else { "" };
        let assumed = if claim.is_assumed { "assumed " } else { "" };
        let (port, name) = (claim.port, &claim.sidecar);
        lines.push(format!("{assumed}:{port}{dns} of {name} until {until}"));
    }
    if let Some(why) = plan.not_held.as_ref().filter(|_| !plan.sidecars.is_empty()) {
        lines.push(format!("not held: {why}"));
    }
    let mesh = plan.sidecars.iter().filter(|one| one.stage == Stage::Mesh);
    for sidecar in mesh {
        let identity = &sidecar.identity;
        lines.push(format!(
            "exempt: users {:?}, groups {:?}",
            identity.users, identity.groups
        ));
    }
    lines
}

#[test]
fn plans_of_pods_from_the_field() {
    let cases = cases();
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for case in cases {
        assert!(names.insert(case.case.clone()), "twice: {}", case.case);
        assert!(case.source.starts_with("https://"), "{}", case.case);
        let found = plan(&case.pod());
        if found != case.plan {
            wrong.push(format!("{}: {found:#?}", case.case));
        }
    }
    if std::env::var_os("USHER_BLESS").is_some() {
        bless(cases);
        return;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Writes the plan below each case.
#[expect(clippy::disallowed_methods, reason = "a test that rewrites its table")]
fn bless(cases: &[Case]) {
    let mut text = String::new();
    let mut skips = false;
    for line in TEXT.lines() {
        skips = line == "  plan:" || skips && line.starts_with("    - \"");
        if skips {
            continue;
        }
        if (line.starts_with("- case:") || line.starts_with('#')) && !text.is_empty() {
            text.push_str(&plan_of_last(&text, cases));
        }
        writeln!(text, "{line}").unwrap();
    }
    text.push_str(&plan_of_last(&text, cases));
    std::fs::write(FILE, text).unwrap();
}

fn plan_of_last(text: &str, cases: &[Case]) -> String {
    let last = text
        .lines()
        .rev()
        .map_while(|line| (!line.starts_with('#')).then_some(line))
        .find_map(|line| line.strip_prefix("- case: "));
    let Some(case) = last.and_then(|name| cases.iter().find(|case| case.case == name)) else {
        return String::new();
    };
    let lines = plan(&case.pod()).into_iter();
    let lines: String = lines.map(|line| format!("    - {line:?}\n")).collect();
    format!("  plan:\n{lines}")
}
