use std::collections::BTreeSet;

use super::*;
use crate::{
    asked::Asked, config::Config, id::PodUid, plan::Plan, policy::RestartPolicy,
    tuning::NamespaceValues,
};

/// A container, and what is said of it and its pod.
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

/// Recipe and ladder, as text: `(143)` after a step that is known to end so,
/// `5s` where it takes time.
fn ladder(case: Case<'_>) -> String {
    let container = Container {
        name: case.name.to_owned(),
        image: case.image.to_owned(),
        image_id: None,
        words: case.words.iter().map(|word| (*word).to_owned()).collect(),
        env: owned(case.env),
        restart_policy: None,
        restart_rules: Vec::new(),
        status: None,
    };
    let pod = Pod {
        uid: PodUid::parse("0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11").unwrap(),
        namespace: "a".to_owned(),
        name: "b".to_owned(),
        annotations: owned(case.annotations),
        deleting: false,
        host_network: case.host_network,
        runtime_class: None,
        terminal: None,
        restart_policy: RestartPolicy::Never,
        containers: vec![container],
        native_sidecars: Vec::new(),
        init_restarters: Vec::new(),
    };
    let config = Config::default();
    let namespace = NamespaceValues::default();
    let plan = Plan::of(&pod, &config, &namespace, &Asked::default());
    let Some(sidecar) = plan.sidecars.first() else {
        return "app".to_owned();
    };
    let steps: Vec<String> = sidecar
        .ladder
        .iter()
        .map(|rung| {
            let drain = if rung.purpose == Purpose::Drain {
                "drain "
            } else {
                ""
            };
            let code = if rung.code == 0 {
                String::new()
            } else {
                format!(" ({})", rung.code)
            };
            let takes = if rung.takes.is_zero() {
                String::new()
            } else {
                format!(" {:?}", rung.takes)
            };
            format!("{drain}{}{code}{takes}", rung.step)
        })
        .collect();
    format!("{}: {}", sidecar.recipe, steps.join(", "))
}

#[test]
fn istio_by_version() {
    let status = "POST :15020/quitquitquit";
    let admin = "POST :15000/quitquitquit";
    for (tag, steps) in [
        ("1.2.10", "SIGTERM 5s".to_owned()),
        ("1.3.0", format!("{status} 5s, SIGTERM 5s")),
        ("1.4.0", format!("{admin}, {status} 5s, SIGTERM 5s")),
        (
            "1.25.5-distroless",
            format!("{admin}, {status} 5s, SIGTERM 5s"),
        ),
        ("1.26.0", format!("{status}, {admin}, SIGTERM 5s")),
        ("1.31-dev", format!("{status}, {admin}, SIGTERM 5s")),
        ("latest", format!("{status}, {admin}, SIGTERM 5s")),
    ] {
        let image = format!("docker.io/istio/proxyv2:{tag}");
        let case = Case {
            name: "istio-proxy",
            image: &image,
            ..Case::default()
        };
        assert_eq!(ladder(case), format!("istio: {steps}"), "{tag}");
    }
}

#[test]
fn istio_as_its_pod_has_it() {
    let case = Case {
        name: "istio-proxy",
        image: "r/proxyv2:1.26.1",
        ..Case::default()
    };
    let at = |port: &str| {
        format!("istio: POST :{port}/quitquitquit, POST :15000/quitquitquit, SIGTERM 5s")
    };
    let port = |value| [("status.sidecar.istio.io/port", value)];
    assert_eq!(
        ladder(Case {
            annotations: &port("15999"),
            ..case
        }),
        at("15999")
    );
    assert_eq!(
        ladder(Case {
            words: &["--statusPort", "15021"],
            ..case
        }),
        at("15021")
    );
    assert_eq!(
        ladder(Case {
            words: &["--statusPort=15022"],
            ..case
        }),
        at("15022")
    );
    assert_eq!(
        ladder(Case {
            words: &["--statusPort"],
            ..case
        }),
        at("15020")
    );
    assert_eq!(
        ladder(Case {
            annotations: &port("many"),
            ..case
        }),
        at("15020")
    );
    let off = "istio: POST :15000/quitquitquit, SIGTERM 5s";
    assert_eq!(
        ladder(Case {
            annotations: &port("0"),
            ..case
        }),
        off
    );
    let proxyless = "istio: POST :15020/quitquitquit, SIGTERM 5s";
    assert_eq!(
        ladder(Case {
            env: &[("DISABLE_ENVOY", "true")],
            ..case
        }),
        proxyless
    );
    assert_eq!(
        ladder(Case {
            host_network: true,
            ..case
        }),
        "istio: SIGTERM 5s"
    );
    let drained = [("usher.dev/drain", "7s")];
    let first = ladder(Case {
        annotations: &drained,
        ..case
    });
    assert!(
        first.starts_with("istio: drain POST :15020/drain 7s, POST :15020"),
        "{first}"
    );
    let older = Case {
        image: "r/proxyv2:1.12.1",
        annotations: &drained,
        ..case
    };
    let first = ladder(older);
    assert!(
        first.starts_with("istio: drain POST :15000/drain_listeners?graceful 7s, POST :15000"),
        "{first}"
    );
}

#[test]
fn every_kind() {
    let flags = |words| Case {
        name: "db",
        image: "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0",
        words,
        ..Case::default()
    };
    let plain = |name, image| Case {
        name,
        image,
        ..Case::default()
    };
    let vault = [("vault.hashicorp.com/agent-enable-quit", "true")];
    let annotated = |case: Case<'static>, annotations| {
        ladder(Case {
            annotations,
            ..case
        })
    };
    let table = [
        (
            ladder(plain("linkerd-proxy", "cr.l5d.io/linkerd/proxy:edge-26.1")),
            "linkerd: POST :4191/shutdown 120s, SIGTERM 120s",
        ),
        (
            ladder(Case {
                env: &[("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "3s")],
                ..plain("linkerd-proxy", "cr.l5d.io/linkerd/proxy:v2")
            }),
            "linkerd: POST :4191/shutdown 3s, SIGTERM 3s",
        ),
        (
            ladder(plain(
                "consul-dataplane-web",
                "hashicorp/consul-dataplane:1.5.1",
            )),
            "consul: POST :20600/graceful_shutdown 30s, SIGTERM 30s",
        ),
        (
            ladder(Case {
                words: &[
                    "-graceful-port=20601",
                    "-shutdown-grace-period-seconds=0",
                    "-graceful-shutdown-path=/bye",
                ],
                ..plain("consul-dataplane", "hashicorp/consul-dataplane:1.5.1")
            }),
            "consul: POST :20601/bye, SIGTERM",
        ),
        (
            ladder(plain(
                "consul-dataplane",
                "hashicorp/consul-dataplane:1.1.0",
            )),
            "consul: SIGTERM, POST :20600/graceful_shutdown (1) 30s",
        ),
        (
            ladder(plain("envoy-sidecar", "envoyproxy/envoy:v1.23.1")),
            "consul-envoy: POST :19000/quitquitquit, SIGTERM",
        ),
        (
            ladder(plain("kuma-sidecar", "docker.io/kumahq/kuma-dp:2.13.2")),
            "kuma: POST :9901/quitquitquit, SIGTERM 30s",
        ),
        (
            ladder(plain("kuma-sidecar", "docker.io/kumahq/kuma-dp:2.14.3")),
            "kuma: SIGTERM 30s",
        ),
        (
            ladder(Case {
                words: &[
                    "--log-level",
                    "error",
                    "--config-path",
                    "/etc/envoy/bootstrap.yaml",
                    "--service-cluster",
                    "x",
                ],
                ..plain("envoy", "envoyproxy/envoy-alpine:v1.19")
            }),
            "osm: POST :15000/quitquitquit, SIGTERM",
        ),
        (
            ladder(plain(
                "envoy",
                "840364872350.dkr.ecr.us-west-2.amazonaws.com/aws-appmesh-envoy:v1.27.2.0-prod",
            )),
            "app-mesh: SIGTERM 20s",
        ),
        (
            ladder(plain(
                "nginx-mesh-sidecar",
                "docker-registry.nginx.com/nsm/nginx-mesh-sidecar:2.0.0",
            )),
            "nginx-mesh: SIGTERM",
        ),
        (
            ladder(plain("daprd", "ghcr.io/dapr/daprd:1.14.0")),
            "dapr: POST :3500/v1.0/shutdown 5s, SIGTERM 5s",
        ),
        (
            ladder(Case {
                words: &["--dapr-http-port", "3600"],
                ..plain("daprd", "daprio/daprd:1.14.0")
            }),
            "dapr: POST :3600/v1.0/shutdown 5s, SIGTERM 5s",
        ),
        (
            ladder(flags(&["--quitquitquit", "p:r:i"])),
            "cloud-sql-proxy: POST :9091/quitquitquit, SIGTERM (143)",
        ),
        (
            ladder(flags(&["--quitquitquit=false"])),
            "cloud-sql-proxy: SIGTERM (143)",
        ),
        (
            ladder(flags(&[
                "--quitquitquit",
                "--admin-port=9095",
                "--exit-zero-on-sigterm",
            ])),
            "cloud-sql-proxy: POST :9095/quitquitquit, SIGTERM",
        ),
        (
            ladder(flags(&["--max-sigterm-delay=4s", "--exit-zero-on-sigterm"])),
            "cloud-sql-proxy: SIGTERM 4s",
        ),
        (
            ladder(Case {
                env: &[("CSQL_PROXY_QUITQUITQUIT", "true")],
                ..flags(&[])
            }),
            "cloud-sql-proxy: POST :9091/quitquitquit, SIGTERM (143)",
        ),
        (
            ladder(plain(
                "csql-default-db",
                "mirror/cloud-sql-proxy:2.11.0-alpine",
            )),
            "cloud-sql-proxy: SIGTERM (143)",
        ),
        (
            ladder(plain(
                "cloudsql-proxy",
                "gcr.io/cloudsql-docker/gce-proxy:1.33.16",
            )),
            "cloud-sql-proxy-v1: SIGTERM",
        ),
        (
            ladder(plain("vault-agent", "hashicorp/vault:1.17")),
            "vault-agent: SIGTERM to vault 5s, SIGTERM 5s",
        ),
        (
            annotated(
                plain("vault-agent", "hashicorp/vault-enterprise:1.17"),
                &vault,
            ),
            "vault-agent: POST :8200/agent/v1/quit, SIGTERM to vault 5s, SIGTERM 5s",
        ),
        (
            ladder(plain("logs", "cr.fluentbit.io/fluent/fluent-bit:3.1")),
            "fluent-bit: SIGTERM 5s",
        ),
        (
            ladder(plain("logs", "fluent/fluentd-kubernetes-daemonset:v1")),
            "fluentd: SIGTERM 5s",
        ),
        (
            ladder(plain("logs", "docker.elastic.co/beats/filebeat:8.1")),
            "filebeat: SIGTERM 5s",
        ),
        (
            ladder(plain("logs", "timberio/vector:0.40.0-distroless-static")),
            "vector: SIGTERM 60s",
        ),
        (
            ladder(plain("otc-container", "my/collector:1")),
            "otel-collector: SIGTERM 5s",
        ),
        (
            ladder(plain(
                "collector",
                "otel/opentelemetry-collector-contrib:0.100.0",
            )),
            "otel-collector: SIGTERM 5s",
        ),
        (
            ladder(plain("logs", "grafana/promtail:2.9")),
            "promtail: SIGTERM 5s",
        ),
        (
            ladder(plain("front", "docker.io/envoyproxy/envoy:v1.40.0")),
            "envoy: POST :9901/quitquitquit, SIGTERM",
        ),
    ];
    let mut seen = BTreeSet::new();
    for (found, expected) in &table {
        assert_eq!(found, expected);
        seen.insert(found.split(':').next().unwrap());
    }
    seen.insert("istio");
    let recipes = builtin();
    let missing: Vec<&str> = recipes
        .iter()
        .map(|recipe| recipe.name.as_str())
        .filter(|name| !seen.contains(name))
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
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
fn the_pod_has_the_last_word() {
    let case = Case {
        name: "db",
        image: "shop/pgbouncer:1",
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
fn what_recipes_look_at_is_known() {
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
}
