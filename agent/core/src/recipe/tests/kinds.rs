//! At least one row for each built-in recipe.

use std::collections::BTreeSet;

use super::{Case, builtin, field, ladder};

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
            ladder(plain(
                "buffer-metrics-sidecar",
                "quay.io/prometheus/node-exporter:v1.1.2",
            )),
            "node-exporter: SIGTERM (143)",
        ),
        (
            ladder(plain(
                "buffer-metrics-sidecar",
                "ghcr.io/kube-logging/custom-runner:1.0.0",
            )),
            "buffer-metrics-sidecar: POST :7357/exit 1s, SIGTERM 15s",
        ),
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
            "app-mesh: SIGTERM (unknown) 20s",
        ),
        (
            ladder(plain(
                "nginx-mesh-sidecar",
                "docker-registry.nginx.com/nsm/nginx-mesh-sidecar:2.0.0",
            )),
            "nginx-mesh: SIGTERM (unknown)",
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
            "cloud-sql-proxy-v1: SIGTERM to cloud_sql_proxy, SIGTERM",
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
    // The other recipes are in the table of pods from the field.
    let cases: Vec<_> = field::cases()
        .iter()
        .flat_map(field::Case::recipes)
        .collect();
    seen.extend(cases.iter().map(String::as_str));
    let recipes = builtin();
    let missing: Vec<&str> = recipes
        .iter()
        .map(|recipe| recipe.name.as_str())
        .filter(|name| !seen.contains(name))
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}
