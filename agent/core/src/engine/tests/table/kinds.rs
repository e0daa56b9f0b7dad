//! The identity of containers: which one ended, which ones exist, and which ones are not visible.

use super::{check, row};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const FINISHED: &str = "pod-finished: still running: istio-proxy";
const RUNS: &str = "waiting: app container app runs";
const UNLISTED: &str = "waiting: the kubelet does not list the pod yet";

#[test]
fn container_kinds_that_exited() {
    check(&[
        row(
            "an init container, though it failed",
            "Never app istio-proxy",
            "pod +sandbox? +setup list ; setup!1 1m",
            &[],
        ),
        row(
            "an init container before the app starts",
            "Never app istio-proxy",
            "pod +setup setup!0 list +app +istio-proxy ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "an ephemeral container",
            "Never app istio-proxy",
            "all +debugger ; debugger!1 1m",
            &[],
        ),
        row(
            "an ephemeral container runs on",
            "Never app istio-proxy",
            "all +debugger ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "the sandbox",
            "Never app istio-proxy",
            "all ; sandbox!0 1m",
            &[],
        ),
        row(
            "the sidecar first, then no container is left",
            "Never app istio-proxy",
            "all ; istio-proxy!0 app!0 1m",
            &[],
        ),
        row(
            "the sidecar first, and it comes back",
            "OnFailure app istio-proxy",
            "all ; istio-proxy!1 app!0 +istio-proxy",
            &[FINISHED, "istio-proxy.1 POST :15020/quitquitquit"],
        ),
        row(
            "a native sidecar beside a regular one is ignored",
            "Never app istio-proxy native=cache",
            "all +cache ; cache!0 +cache app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "a run whose process is found late",
            "Never app istio-proxy",
            "all app!0 ; app>started",
            &[],
        ),
        row(
            "a run beside one that lives",
            "Never app istio-proxy",
            "all ; +app app!3",
            &[],
        ),
        row(
            "app and sidecar at once",
            "Never app istio-proxy",
            "all ; app! istio-proxy!0 istio-proxy>refused 1m",
            &[
                FINISHED,
                QUIT,
                "istio-proxy sidecar-ended: by itself, with exit code 0",
            ],
        ),
    ]);
}

#[test]
fn pods_with_and_without_sidecars() {
    check(&[
        row(
            "no sidecar",
            "Never app",
            "all app!0 1m",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "not-applicable: no recipe recognizes",
            ],
        ),
        row(
            "native sidecars only",
            "Never app native=istio-proxy native=logs",
            "all app!0 1m",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "not-applicable: which the kubelet ends: istio-proxy, logs",
            ],
        ),
        row(
            "sidecars only",
            "Never istio-proxy",
            "all 1m",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "not-applicable: the pod has sidecars only",
            ],
        ),
        row(
            "a helper that is the pod's work",
            "Never sql istio-proxy",
            "all ; sql!0",
            &[FINISHED, QUIT],
        ),
        row(
            "a log shipper that is the pod's work",
            "Never logs istio-proxy",
            "all ; logs!0",
            &[FINISHED, QUIT],
        ),
        row(
            "the annotation names one",
            "Never app helper usher.dev/sidecars=helper",
            "all ; app!0",
            &["pod-finished: still running: helper", "helper.0 SIGTERM"],
        ),
        row(
            "the annotation names a step, and SIGTERM follows",
            "Never app helper usher.dev/sidecars=helper=POST_:9091/quit",
            "all ; app!0 helper>404 helper>signalled helper!0",
            &[
                "pod-finished: still running: helper",
                "helper.0 POST :9091/quit",
                "helper step-failed: status 404; next is SIGTERM",
                "helper.0 SIGTERM",
                "helper quit-accepted: SIGTERM was delivered (recipe annotation)",
                "helper sidecar-ended: as requested, with exit code 0",
            ],
        ),
        row(
            "the annotation says that a known sidecar is the app",
            "Never app logs usher.dev/sidecars=logs=app,app=SIGINT",
            "all ; logs!0",
            &["pod-finished: still running: app", "app.0 SIGINT"],
        ),
        row(
            "the annotation cannot be read",
            "Never app istio-proxy usher.dev/sidecars=app=SIGKILL",
            "all ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "the annotation names a container that the pod does not have",
            "Never app istio-proxy usher.dev/sidecars=ap",
            "all",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "invalid-annotation: usher.dev/sidecars has the invalid value \"ap\", expected the name of a regular container",
                RUNS,
            ],
        ),
        row(
            "an invalid annotation of a pod without a sidecar is reported",
            "Never app usher.dev/quit=maybe",
            "all",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "invalid-annotation: annotation usher.dev/quit has the invalid value \"maybe\"",
                "not-applicable: no recipe",
            ],
        ),
        row(
            "and not what its Namespace does",
            "Never app annotation:usher.dev/quit=maybe",
            "all",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "not-applicable: no recipe",
            ],
        ),
        row(
            "which pods with sidecars are reported",
            "Never app istio-proxy annotation:usher.dev/quit=maybe",
            "all",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "invalid-annotation: annotation of the Namespace usher.dev/quit has the invalid value",
                RUNS,
            ],
        ),
        row(
            "an invalid value is reported once",
            "Never app istio-proxy usher.dev/sidecars=app=SIGKILL",
            "all list list",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                "invalid-annotation: usher.dev/sidecars has the invalid value \"app=SIGKILL\", expected a list",
                RUNS,
            ],
        ),
    ]);
}

#[test]
fn containers_that_cannot_start() {
    const WAITS: &str = "waiting: app container app has not started yet";
    check(&[
        row(
            "it waits for its image",
            "Never app istio-proxy",
            "pod list +istio-proxy app=W list 10m",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                WAITS,
            ],
        ),
        row(
            "one of two waits for its image",
            "Never app job istio-proxy",
            "pod list +job +istio-proxy app=W list job!0 10m",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                WAITS,
            ],
        ),
        row(
            "StartError is final under Never",
            "Never app istio-proxy",
            "pod list ?x +istio-proxy ; app=T128@x list",
            &[FINISHED, QUIT],
        ),
        row(
            "StartError under OnFailure",
            "OnFailure app istio-proxy",
            "pod list ?x +istio-proxy ; app=T128@x list",
            &["waiting: ended with exit code 128 and restarts"],
        ),
        row(
            "a life too short for a name",
            "Never app istio-proxy",
            "pod list ?x +istio-proxy",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                WAITS,
                "waiting: the kernel did not show container app",
            ],
        ),
        row(
            "an old status says that it runs, and the kernel never showed it",
            "Never app istio-proxy",
            "pod +istio-proxy list app=R@x list",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                WAITS,
                FINISHED,
                QUIT,
            ],
        ),
        row(
            "it ended before the agent started",
            "OnFailure app istio-proxy",
            "pod +istio-proxy app=T0@x list",
            &[
                UNLISTED,
                "waiting: the API server has not returned the pod's Namespace yet",
                FINISHED,
                QUIT,
            ],
        ),
    ]);
}

#[test]
fn containers_hidden_from_the_kernel() {
    check(&[
        row(
            "the kernel shows a container without processes",
            "Never app istio-proxy class=kata",
            "pod list +istio-proxy ~app app=R@app.0 list ; app>opaque 10m",
            &["runtime-unsupported: none of its processes"],
        ),
        row(
            "the kernel never shows it",
            "Never app istio-proxy class=gvisor",
            "pod list +istio-proxy ; app=R@x list 20s",
            &[
                "waiting: the kernel did not show container app",
                "runtime-unsupported: a sandboxed runtime such as gVisor or Kata (RuntimeClass gvisor)",
            ],
        ),
        row(
            "a RuntimeClass that hides nothing",
            "Never app istio-proxy class=runc",
            "all ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "hidden, until its end stands in the status",
            "Never app istio-proxy class=gvisor",
            "pod +istio-proxy app=R@x list 20s ; app=T0@x list",
            &[FINISHED, QUIT],
        ),
    ]);
}
