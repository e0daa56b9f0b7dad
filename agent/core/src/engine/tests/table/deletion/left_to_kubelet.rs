//! Sidecars and pods that usher leaves to the kubelet.

use super::{
    super::{check, check_with, row},
    ENDED, MESHED, QUIT,
};

#[test]
fn sidecars_left_to_the_kubelet() {
    const LOGS: &str = "logs left-to-kubelet: a log shipper sends what it has collected";
    check(&[
        row(
            "a gateway: the same name and image",
            "Always app istio-proxy args=istio-proxy=proxy_router",
            "all deleting ; app!0 1m",
            &["istio-proxy left-to-kubelet: do not show that it is a sidecar"],
        ),
        row(
            "a gateway whose arguments are not known",
            "Always app istio-proxy",
            "all deleting ; app!0 1m",
            &["istio-proxy left-to-kubelet: do not show that it is a sidecar"],
        ),
        row(
            "a gateway alone",
            "Always istio-proxy args=istio-proxy=proxy_router",
            "all deleting ; 1m",
            &[],
        ),
        row(
            "a plain Envoy",
            "Always app envoy image=envoy=envoyproxy/envoy:v1.31.0",
            "all deleting ; app!0 1m",
            &["envoy left-to-kubelet: no request is known that ends it after SIGTERM"],
        ),
        row(
            "a database proxy",
            "Always app sql",
            "all deleting ; app!0 1m",
            &["sql left-to-kubelet: no request is known that ends it after SIGTERM"],
        ),
        row(
            "named by the pod",
            "Always app other usher.dev/sidecars=other=POST_:9091/quit",
            "all deleting ; app!0 1m",
            &["other left-to-kubelet: no request is known that ends it after SIGTERM"],
        ),
        row(
            "a log shipper, which may need the mesh",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar logs",
            "all deleting ; app!0 1m",
            &[LOGS, ENDED],
        ),
        row(
            "the log shipper has ended",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar logs",
            "all deleting app!0 1s ; logs!0 1m",
            &[QUIT],
        ),
        row(
            "a container that ends by itself after the mesh proxy",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar gke-gcsfuse-sidecar \
             image=gke-gcsfuse-sidecar=gke.gcr.io/gcs-fuse-csi-driver-sidecar-mounter:v1",
            "all deleting ; app!0 1m",
            &[ENDED, QUIT],
        ),
        row(
            "native sidecars",
            "Always app native=istio-proxy",
            "all deleting ; app!0 1m",
            &[],
        ),
    ]);
    for (settings, reason) in [
        (
            "env=istio-proxy=EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true",
            "not with variable EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true",
        ),
        (
            "env=istio-proxy=EXIT_ON_ZERO_ACTIVE_CONNECTIONS=1",
            "not with variable EXIT_ON_ZERO_ACTIVE_CONNECTIONS=1",
        ),
        (
            "env=istio-proxy=MINIMUM_DRAIN_DURATION=8s",
            "not with variable MINIMUM_DRAIN_DURATION",
        ),
        (
            "env=istio-proxy=DISABLE_ENVOY=true",
            "not with variable DISABLE_ENVOY=true",
        ),
        (
            "image=istio-proxy=istio/proxyv2:1.19.3",
            "only with version from 1.20",
        ),
    ] {
        let reason: &str = format!("istio-proxy left-to-kubelet: {reason}").leak();
        let pod = format!("{MESHED} {settings}");
        check(&[row(
            "by version and settings",
            pod.leak(),
            "all deleting ; app!0 1m",
            vec![reason].leak(),
        )]);
    }
}

#[test]
fn pods_left_to_the_kubelet() {
    const POLICY: &str = "left-to-kubelet: under restartPolicy OnFailure";
    const OPTED_OUT: &str = "left-to-kubelet: the pod opted out: usher.dev/quit is \"false\"";
    for (what, settings, expected) in [
        ("OnFailure", "OnFailure", POLICY),
        (
            "Never, with an app that restarts",
            "Never app:Always",
            "left-to-kubelet: under restartPolicy Never",
        ),
        (
            "a sidecar with a policy of its own",
            "other:Never usher.dev/sidecars=other",
            "left-to-kubelet: under restartPolicy Never",
        ),
        (
            "restart rules",
            "other[42=all]",
            "left-to-kubelet: container other has restart rules",
        ),
        ("opted out", "usher.dev/quit=false", OPTED_OUT),
        (
            "opted out by its Namespace",
            "label:usher.dev/quit=false",
            OPTED_OUT,
        ),
        (
            "hostNetwork",
            "host",
            "left-to-kubelet: the pod uses hostNetwork",
        ),
    ] {
        let app = if settings.contains("app:") { "" } else { "app" };
        let pod = format!("Always {app} istio-proxy args=istio-proxy=proxy_sidecar {settings}");
        let other = if settings.contains("other[") {
            "other!1"
        } else {
            ""
        };
        let events = format!("all deleting ; {other} app!1 1m");
        check(&[row(what, pod.leak(), events.leak(), vec![expected].leak())]);
    }
    check(&[row(
        "Never: the pod has finished",
        "Never app istio-proxy args=istio-proxy=proxy_sidecar",
        "all deleting ; app!0 1m",
        &["skipped: the pod is being deleted"],
    )]);
    check_with(
        &[row(
            "an excluded namespace",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar in=infra",
            "config all deleting ; app!0 1m",
            &[],
        )],
        "excludedNamespaces: [infra]",
    );
}
