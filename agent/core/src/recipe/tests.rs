pub(crate) mod field;
mod format;
mod istio;
mod kinds;

use crate::{
    plan::{Plan, version_query::VersionQueries},
    pod::spec::plain,
    recipe::*,
    settings::{config::Config, overrides::NamespaceValues},
};

/// A container with its settings and those of its pod.
#[derive(Default, Clone, Copy)]
struct Case<'a> {
    name: &'a str,
    image: &'a str,
    words: &'a [&'a str],
    env: &'a [(&'a str, &'a str)],
    annotations: &'a [(&'a str, &'a str)],
    host_network: bool,
}

fn owned(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// The plan of a pod with this container and an app.
fn plan(case: Case<'_>) -> Plan {
    let container = Container {
        words: case.words.iter().map(|word| (*word).to_owned()).collect(),
        env: owned(case.env),
        ..plain::container(case.name, case.image)
    };
    let pod = Pod {
        annotations: owned(case.annotations),
        host_network: case.host_network,
        ..plain::pod(vec![container, plain::container("work", "shop/work:1")])
    };
    let config = Config::default();
    let namespace = NamespaceValues::default();
    Plan::of(&pod, &config, &namespace, &VersionQueries::default())
}

/// Recipe and ladder, as text: `(143)` after a step with this known exit code, `5s` after a step
/// that takes time.
fn ladder(case: Case<'_>) -> String {
    let plan = plan(case);
    let Some(sidecar) = plan.sidecars.first() else {
        return "app".to_owned();
    };
    let steps: Vec<String> = sidecar
        .ladder
        .iter()
        .map(|ladder_step| {
            let drain = if ladder_step.purpose == Purpose::Drain {
                "drain "
            } else {
                ""
            };
            let code = if ladder_step.code == ExitCode::ZERO {
                String::new()
            } else {
                format!(" ({})", ladder_step.code)
            };
            let takes = if ladder_step.takes.is_zero() {
                String::new()
            } else {
                format!(" {:?}", ladder_step.takes)
            };
            format!("{drain}{}{code}{takes}", ladder_step.step)
        })
        .collect();
    format!("{}: {}", sidecar.recipe, steps.join(", "))
}

/// The phase of the pod is the same as after SIGTERM alone.
#[test]
fn steps_after_term_end_with_the_code_of_sigterm() {
    for recipe in builtin().iter() {
        for step in &recipe.after_term.steps {
            let term = recipe
                .quit
                .iter()
                .find(|other| matches!(other.act, Act::Signal { .. }));
            assert_eq!(
                term.map(|term| term.code),
                Some(step.code),
                "{}",
                recipe.name
            );
        }
    }
}

#[test]
fn conservative() {
    for (name, image) in [
        ("app", "istio/proxyv2:1.26.1"),
        ("istio-proxy", "shop/report:1"),
        ("envoy", "shop/envoy:1"),
        ("vault-agent", "shop/report:1"),
        ("app", "hashicorp/vault:1.17"),
        ("app", "ghcr.io/dapr/daprd:1.14.0"),
        ("app", "shop/vector:1"),
        ("linkerd-proxy", "shop/report:1"),
        ("kuma-sidecar", "shop/report:1"),
    ] {
        let case = Case {
            name,
            image,
            ..Case::default()
        };
        assert_eq!(ladder(case), "app", "{name} {image}");
    }
    let words = ["proxy", "sidecar"];
    let mirrored = Case {
        name: "istio-proxy",
        image: "mirror/mesh:1",
        words: &words,
        ..Case::default()
    };
    assert!(ladder(mirrored).starts_with("istio: "));
}

#[test]
fn pod_overrides_the_recipe() {
    let case = Case {
        name: "db",
        image: "shop/pooler:1",
        ..Case::default()
    };
    let named = |list| {
        ladder(Case {
            annotations: &[("usher.dev/sidecars", list)],
            ..case
        })
    };
    assert_eq!(named("db"), "annotation: SIGTERM");
    assert_eq!(named("db=SIGINT"), "annotation: SIGINT");
    assert_eq!(
        named("db=POST :9091/quit"),
        "annotation: POST :9091/quit, SIGTERM"
    );
    assert_eq!(named("other"), "app");
    let posts = Case {
        annotations: &[("usher.dev/sidecars", "db=POST :9091/quit")],
        host_network: true,
        ..case
    };
    assert_eq!(ladder(posts), "annotation: SIGTERM");
    let app = [("usher.dev/sidecars", "istio-proxy=app")];
    let istio = Case {
        name: "istio-proxy",
        image: "istio/proxyv2:1.26.1",
        annotations: &app,
        ..case
    };
    assert_eq!(ladder(istio), "app");
}

#[test]
fn annotations_and_variables_of_recipes_are_read() {
    let reads = Config::default().reads();
    for key in [
        "status.sidecar.istio.io/port",
        "vault.hashicorp.com/agent-enable-quit",
    ] {
        assert!(reads.annotations.contains(key), "{key}");
    }
    for name in [
        "DISABLE_ENVOY",
        "CSQL_PROXY_QUITQUITQUIT",
        "LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD",
    ] {
        assert!(reads.env.contains(name), "{name}");
    }
    // This includes settings that only the hold reads.
    let text = "recipes:\n- name: own\n  recognize: [{name: [own]}]\n  quit: [{signal: SIGTERM}]\n  hold:\n    \
                when: {annotations: {shop.example/wait: 'yes'}}\n    captured:\n      port: 7\n      users: [7]\n      \
                dns: {port: 8, when: {env: {OWN_DNS: 'yes'}}}\n      \
                ready: [{get: {port: 9, path: /}, unless: {env: {OWN_LATE: 'yes'}}}]\n";
    let reads = Config::parse("c.yaml", text).unwrap().reads();
    assert!(reads.annotations.contains("shop.example/wait"));
    for name in ["OWN_DNS", "OWN_LATE"] {
        assert!(reads.env.contains(name), "{name}");
    }
}

/// Effects are measured, or follow from a source. Without either the exit code is unknown.
#[test]
fn effects_have_a_source() {
    for recipe in builtin().iter() {
        let says_unknown = recipe.notes.contains("not known");
        for step in &recipe.quit {
            let (name, code) = (&recipe.name, step.code);
            assert_eq!(
                code == ExitCode::Unknown,
                says_unknown,
                "{name}: {:?}",
                step.act
            );
            let has_basis = step.measured.is_some() || !recipe.sources.is_empty();
            assert!(
                has_basis || code == ExitCode::Unknown,
                "{name}: {:?}",
                step.act
            );
        }
        assert!(
            !recipe.notes.contains("not been measured"),
            "{}",
            recipe.name
        );
    }
}
