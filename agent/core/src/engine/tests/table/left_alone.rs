//! Finished pods that usher leaves alone, and later events that change this.

use super::{check, check_with, row};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const FINISHED: &str = "pod-finished: still running: istio-proxy";
const OPTED_OUT: &str = "skipped: usher.dev/quit is \"false\"";

#[test]
fn ended_as_a_whole() {
    const DELETING: &str = "skipped: the pod is being deleted";
    check(&[
        row(
            "deleted before the end",
            "Never app istio-proxy",
            "all deleting ; app!0 1m",
            &[DELETING],
        ),
        row(
            "deleted, and the app ends by SIGTERM",
            "Never app istio-proxy",
            "all deleting ; app!TERM 1m",
            &[DELETING],
        ),
        row(
            "deleted after the end: no more steps",
            "Never app istio-proxy",
            "all app!0 istio-proxy>404 ; deleting istio-proxy>404 1m",
            &[DELETING],
        ),
        row(
            "deleted under OnFailure: what would come back does not matter",
            "OnFailure app istio-proxy",
            "all deleting ; app!TERM 1m",
            &["left-to-kubelet: under restartPolicy OnFailure"],
        ),
        row(
            "evicted",
            "Never app istio-proxy",
            "all ; app!TERM istio-proxy>refused terminal=Evicted 1m",
            &[
                FINISHED,
                QUIT,
                "skipped: the kubelet terminates the whole pod (Evicted)",
            ],
        ),
        row(
            "its deadline is exceeded",
            "Never app istio-proxy",
            "all terminal=DeadlineExceeded ; app!TERM 1m",
            &["skipped: the kubelet terminates the whole pod (DeadlineExceeded)"],
        ),
        row(
            "gone: no more reports",
            "Never app istio-proxy",
            "all app!0 ; gone 1m",
            &[],
        ),
    ]);
}

#[test]
fn a_pod_without_living_sidecars_is_not_skipped() {
    const ENDED: &str = "istio-proxy sidecar-ended: as requested";
    check(&[
        row(
            "its phase, once the sidecar has ended as requested",
            "Never app istio-proxy",
            "all app!0 istio-proxy>accepted istio-proxy!0 ; terminal=Succeeded 1m",
            &[],
        ),
        row(
            "the same of a pod that failed",
            "Never app istio-proxy",
            "all app!3 istio-proxy>accepted istio-proxy!0 ; terminal=Failed 1m",
            &[],
        ),
        row(
            "deleted once all has ended",
            "Never app istio-proxy",
            "all app!0 istio-proxy>accepted istio-proxy!0 ; deleting 1m",
            &[],
        ),
        row(
            "opted out once all has ended",
            "Never app istio-proxy",
            "all app!0 istio-proxy>accepted istio-proxy!0 ; usher.dev/quit=false 1m",
            &[],
        ),
        row(
            "the sidecar's end is reported although the phase overtook its reply",
            "Never app istio-proxy",
            "all app!0 ; istio-proxy!0 terminal=Succeeded istio-proxy>accepted",
            &["istio-proxy quit-accepted: was accepted", ENDED],
        ),
        row(
            "evicted, and then the sidecar ends: by the kubelet",
            "Never app istio-proxy",
            "all app!0 terminal=Evicted ; istio-proxy!0 1m",
            &[],
        ),
        row(
            "the first of two has ended: the other is left alone",
            "Never app daprd istio-proxy",
            "all app!0 daprd>accepted daprd!0 ; terminal=Evicted",
            &["skipped: (Evicted)"],
        ),
    ]);
}

#[test]
fn opted_out() {
    check(&[
        row(
            "by the pod",
            "Never app istio-proxy usher.dev/quit=false",
            "all ; app!0 1m",
            &[OPTED_OUT],
        ),
        row(
            "by a label of the Namespace",
            "Never app istio-proxy label:usher.dev/quit=false",
            "all ; app!0 1m",
            &[OPTED_OUT],
        ),
        row(
            "by an annotation of the Namespace",
            "Never app istio-proxy annotation:usher.dev/quit=false",
            "all ; app!0 1m",
            &[OPTED_OUT],
        ),
        row(
            "the annotation overrides the label",
            "Never app istio-proxy annotation:usher.dev/quit=true label:usher.dev/quit=false",
            "all ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "the pod overrides its Namespace",
            "Never app istio-proxy usher.dev/quit=true annotation:usher.dev/quit=false",
            "all ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "too late for the request that was made",
            "Never app istio-proxy",
            "all app!0 ; usher.dev/quit=false istio-proxy>404 1m",
            &[OPTED_OUT],
        ),
        row(
            "and in again",
            "Never app istio-proxy usher.dev/quit=false",
            "all app!0 ; usher.dev/quit=true",
            &[FINISHED, QUIT],
        ),
        row(
            "it is not reported of an unfinished pod",
            "Never app istio-proxy usher.dev/quit=false",
            "all 1m",
            &[
                "waiting: does not list",
                "waiting: the API server has not returned the pod's Namespace yet",
                "waiting: app container app runs",
            ],
        ),
    ]);
    check_with(
        &[
            row(
                "by the configuration",
                "Never app istio-proxy",
                "config all ; app!0 1m",
                &["skipped: or by the configuration"],
            ),
            row(
                "by the configuration, in by the Namespace",
                "Never app istio-proxy label:usher.dev/quit=true",
                "config all ; app!0",
                &[FINISHED, QUIT],
            ),
            row(
                "its namespace is excluded, whatever it says",
                "Never app istio-proxy in=kube-system usher.dev/quit=true",
                "config all app!0 1m",
                &[
                    "waiting: does not list",
                    "waiting: the API server has not returned the pod's Namespace yet",
                    "not-applicable: the configuration excludes the pod's namespace",
                ],
            ),
            row(
                "excluded while its sidecar is asked",
                "Never app istio-proxy in=kube-system",
                "all app!0 ; config istio-proxy>404 1m",
                &["not-applicable: the configuration excludes the pod's namespace"],
            ),
        ],
        "{excludedNamespaces: [kube-system], defaults: {quit: false}}",
    );
}

#[test]
fn the_namespace_is_unknown() {
    const UNKNOWN: &str = "waiting: the API server has not returned the pod's Namespace yet";
    check(&[
        row(
            "the API server is away",
            "Never app istio-proxy api-away",
            "all ; app!0 10m",
            &[],
        ),
        row(
            "it is back after the end",
            "Never app istio-proxy api-away",
            "all app!0 10s api-back 1m",
            &["waiting: does not list", UNKNOWN, FINISHED, QUIT],
        ),
        row(
            "it is back, and the Namespace says no",
            "Never app istio-proxy api-away label:usher.dev/quit=false",
            "all app!0 10s ; api-back 1m",
            &[OPTED_OUT],
        ),
    ]);
}

#[test]
fn modes() {
    const WOULD: &str =
        "istio-proxy would-quit: enforce would try POST :15020/quitquitquit first (recipe istio)";
    check(&[
        row(
            "observe",
            "Never app istio-proxy",
            "observe all ; app!0 1m",
            &[FINISHED, WOULD],
        ),
        row(
            "observe, then enforce",
            "Never app istio-proxy",
            "observe all app!0 ; enforce",
            &[QUIT],
        ),
        row(
            "observe, and it has opted out",
            "Never app istio-proxy usher.dev/quit=false",
            "observe all ; app!0 1m",
            &[OPTED_OUT],
        ),
    ]);
}
