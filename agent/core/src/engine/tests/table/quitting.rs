//! The termination of sidecars: steps and their effects on the pod, order, waits, and restarts.

use super::{check, check_with, row};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const FINISHED: &str = "pod-finished: still running: istio-proxy";
/// SIGTERM ends it with a code that fails a successful pod.
const FRAGILE: &str = "{recipes: [{name: fragile, stage: logs, recognize: [{image: [acme/fragile]}], \
                   quit: [{post: {port: 4000, path: /stop}, code: 0}, {signal: SIGTERM, code: 143}]}]}";

#[test]
fn one_stage_after_the_other() {
    const ALL_LEFT: &str = "pod-finished: still running: istio-proxy, logs, daprd";
    const DAPR: &str = "daprd.0 POST :3500/v1.0/shutdown";
    check(&[
        row(
            "helper, logs, mesh",
            "Never app istio-proxy logs daprd",
            "all ; app!0 daprd>accepted daprd!0 logs>signalled logs!0",
            &[
                ALL_LEFT,
                DAPR,
                "daprd quit-accepted: was accepted",
                "daprd sidecar-ended: as requested",
                "logs.0 SIGTERM",
                "logs quit-accepted: was delivered",
                "logs sidecar-ended: as requested",
                QUIT,
            ],
        ),
        row(
            "its answer is late, and it ends",
            "Never app daprd",
            "all ; app!0 daprd>late daprd!0 daprd>over",
            &[
                "pod-finished: still running: daprd",
                DAPR,
                "daprd step-failed: timed out; next is SIGTERM",
                "daprd.0 SIGTERM",
                "daprd sidecar-ended: as requested",
            ],
        ),
        row(
            "two of a stage at once",
            "Never app sql daprd istio-proxy",
            "all ; app!3",
            &[
                "pod-finished: still running: sql, daprd, istio-proxy",
                "sql.0 SIGTERM",
                DAPR,
            ],
        ),
        row(
            "the helper has not started yet",
            "Never app daprd istio-proxy",
            "pod list +app +istio-proxy daprd=W list ; app!0 1m",
            &[FINISHED],
        ),
        row(
            "the helper starts after the end",
            "Never app daprd istio-proxy",
            "pod list +app +istio-proxy app!0 ; +daprd daprd>accepted daprd!0",
            &[
                DAPR,
                "daprd quit-accepted: POST :3500/v1.0/shutdown was accepted (recipe dapr)",
                "daprd sidecar-ended: as requested",
                QUIT,
            ],
        ),
        row(
            "the helper could not start, finally",
            "Never app daprd istio-proxy",
            "pod list +app +istio-proxy app!0 ?x ; daprd=T128@x list",
            &["daprd sidecar-ended: by itself", QUIT],
        ),
        row(
            "the helper is given up: the next stage begins",
            "Never app sql istio-proxy",
            "all ; app!0",
            &[
                "pod-finished: still running: sql, istio-proxy",
                "sql gave-up: 143",
                QUIT,
            ],
        ),
        row(
            "the helper is given up once: what is listed of others is no reason to try again",
            "Never app sql istio-proxy",
            "all app!0 ; app=T0 list 1m",
            &[],
        ),
        row(
            "the helper ends by itself",
            "Never app daprd istio-proxy",
            "all daprd!0 ; app!0",
            &[FINISHED, "daprd sidecar-ended: by itself", QUIT],
        ),
        row(
            "a sidecar that was named is a helper",
            "Never app istio-proxy tool usher.dev/sidecars=tool",
            "all ; app!0",
            &[
                "pod-finished: still running: istio-proxy, tool",
                "tool.0 SIGTERM",
            ],
        ),
    ]);
}

#[test]
fn container_killed_before_its_start_has_not_ended() {
    check(&[row(
        "a sidecar that is waited with",
        "Never app istio-proxy usher.dev/quit-delay=5s",
        "all ; app!0 istio-proxy!created 1s +istio-proxy 5s",
        &[
            FINISHED,
            "waiting: usher.dev/quit-delay requests a wait of 5s",
            "istio-proxy.1 POST :15020/quitquitquit",
        ],
    )]);
}

#[test]
fn events_before_the_reply() {
    const REPORTED: &[&str] = &[
        FINISHED,
        QUIT,
        "istio-proxy quit-accepted",
        "istio-proxy sidecar-ended: as requested, with exit code 0",
    ];
    check(&[
        row(
            "the sidecar's end",
            "Never app istio-proxy",
            "all ; app!0 istio-proxy!0 istio-proxy>accepted",
            REPORTED,
        ),
        row(
            "a second answer, to what was asked before the app had been started again",
            "Never app istio-proxy",
            "all app!0 +app app!0 istio-proxy>accepted ; istio-proxy>500 1900ms",
            &[],
        ),
        row(
            "the pod's end",
            "Never app istio-proxy",
            "all ; app!0 istio-proxy!0 sandbox!0 gone istio-proxy>accepted 1m",
            REPORTED,
        ),
    ]);
}

#[test]
fn late_reply_leaves_no_state() {
    const POD: &str = "Never app tool image=tool=registry.test/acme/fragile:1";
    const LATE: &str = "tool step-failed: timed out; next is SIGTERM";
    check_with(
        &[
            row(
                "it was asked, and has time to end",
                POD,
                "config all app!0 ; tool>late 1900ms tool!0",
                &[LATE, "tool sidecar-ended: as requested, with exit code 0"],
            ),
            row(
                "it runs on",
                POD,
                "config all app!0 ; tool>late 2s",
                &[
                    LATE,
                    "tool gave-up: SIGTERM would end the sidecar with exit code 143",
                ],
            ),
            row(
                "it refused: nothing is to be waited for",
                POD,
                "config all app!0 ; tool>500",
                &[
                    "tool step-failed: answered with status 500; next is SIGTERM",
                    "tool gave-up: SIGTERM would end the sidecar with exit code 143",
                ],
            ),
            row(
                "what was left out meanwhile is allowed",
                POD,
                "config all app!0 tool>late ; 1s usher.dev/allow-pod-failure=true list 1s",
                &["tool.0 SIGTERM"],
            ),
        ],
        FRAGILE,
    );
}

#[test]
fn restarted_sidecars() {
    check(&[
        row(
            "a restart of the sidecar is no change of the sandbox",
            "OnFailure app istio-proxy",
            "all app!0 istio-proxy>accepted istio-proxy!1 ; +istio-proxy 1s",
            &["istio-proxy.1 POST :15020/quitquitquit"],
        ),
        row(
            "quit again, a second later",
            "Never app istio-proxy",
            "all app!0 istio-proxy>accepted istio-proxy!1 +istio-proxy ; 999ms",
            &[],
        ),
        row(
            "quit again",
            "Never app istio-proxy",
            "all app!0 istio-proxy>accepted istio-proxy!1 +istio-proxy ; 1s",
            &["istio-proxy.1 POST :15020/quitquitquit"],
        ),
        row(
            "the third time ten seconds later, the fourth not at all",
            "Never app istio-proxy",
            "all app!0 istio-proxy!1 istio-proxy>accepted +istio-proxy 1s istio-proxy>accepted istio-proxy!1 \
             +istio-proxy ; 10s istio-proxy>accepted istio-proxy!1 +istio-proxy 10m",
            &[
                "istio-proxy.2 POST :15020/quitquitquit",
                "istio-proxy quit-accepted: was accepted",
                "istio-proxy sidecar-ended: as requested, with exit code 1",
                "istio-proxy gave-up: restarts each time",
            ],
        ),
        row(
            "the sidecar starts after the end",
            "Never app istio-proxy",
            "pod list +app ; app!0 +istio-proxy",
            &["pod-finished: no sidecar runs yet", QUIT],
        ),
        row(
            "the app is started after all: what was begun is dropped",
            "Never app istio-proxy",
            "all app!0 ; +app istio-proxy>404 1m",
            &["waiting: app container app runs"],
        ),
        row(
            "it is asked anew when the app has ended again",
            "Never app istio-proxy",
            "all app!0 +app istio-proxy>404 1m ; app!0",
            &[FINISHED, QUIT],
        ),
    ]);
}

#[test]
fn versions_and_recipes_received_later() {
    const TAG: &str = "Never app istio-proxy image=istio-proxy=docker.io/istio/proxyv2:latest";
    const ADMIN: &str = "istio-proxy.0 POST :15000/quitquitquit";
    check(&[
        row(
            "a tag that names no version is asked about",
            TAG,
            "all 1s ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "an old version has another ladder",
            TAG,
            "all 1s istio-proxy>version=1.20.8 ; app!0",
            &[FINISHED, ADMIN],
        ),
        row(
            "a version that cannot be parsed",
            TAG,
            "all 1s istio-proxy>version=main ; app!0",
            &[FINISHED, QUIT],
        ),
    ]);
    const SHIPPER: &str = "{recipes: [{name: shipper, stage: logs, recognize: [{image: [acme/shipper]}], \
                   quit: [{post: {port: 4000, path: /stop}, code: 0}]}]}";
    check_with(
        &[
            row(
                "a recipe for a pod that runs",
                "Never app tool image=tool=registry.test/acme/shipper:1",
                "all app!0 ; config",
                &[
                    "pod-finished: still running: tool",
                    "tool.0 POST :4000/stop",
                ],
            ),
            row(
                "a recipe for another",
                "Never app tool",
                "all app!0 ; config 1m",
                &[],
            ),
        ],
        SHIPPER,
    );
}

/// A time that has passed for one sidecar is no reason to forget that of another one.
#[test]
fn each_sidecar_waits_for_its_own_time() {
    check(&[
        row(
            "a helper that usher gave up on ends with an error",
            "Never app sql istio-proxy",
            "all 3s app!0 istio-proxy>accepted sql!1 ; 2s",
            &[
                "istio-proxy step-failed",
                "istio-proxy.0 POST :15000/quitquitquit",
            ],
        ),
        row(
            "the helper is back when the proxy's time has passed",
            "OnFailure app daprd istio-proxy",
            "all 3s app!0 daprd>accepted daprd!1 istio-proxy>accepted +daprd 1s ; 1s daprd>refused 1s",
            &["daprd.1 POST :3500/v1.0/shutdown"],
        ),
    ]);
}
