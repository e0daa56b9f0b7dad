//! Waits before a step and after it.

use super::{check, row};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const FINISHED: &str = "pod-finished: still running: istio-proxy";

#[test]
fn before_and_after_a_step() {
    check(&[
        row(
            "quit-delay: not before it is over",
            "Never app istio-proxy usher.dev/quit-delay=5s",
            "all ; app!0 4s",
            &[
                FINISHED,
                "waiting: usher.dev/quit-delay requests a wait of 5s",
            ],
        ),
        row(
            "quit-delay: over",
            "Never app istio-proxy usher.dev/quit-delay=5s",
            "all app!0 4s ; 1s",
            &[QUIT],
        ),
        row(
            "quit-delay counts from the last end",
            "Never app job istio-proxy usher.dev/quit-delay=5s",
            "all job!0 3s app!0 ; 4s",
            &[],
        ),
        row(
            "quit-delay counts from the end, not from when that is known to be one",
            "Never app istio-proxy api-away usher.dev/quit-delay=2s",
            "all app!0 ; api-back 2100ms",
            &[FINISHED, "waiting: requests a wait of 2s", QUIT],
        ),
        row(
            "quit-delay begins anew when the app does",
            "Never app istio-proxy usher.dev/quit-delay=5s",
            "all app!0 4s +app ; app!0 4s",
            &[FINISHED, "waiting: requests a wait of 5s"],
        ),
        row(
            "quit-delay of the Namespace, too long to be one",
            "Never app istio-proxy annotation:usher.dev/quit-delay=11m",
            "all ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "drain first, whatever time it takes",
            "Never app istio-proxy usher.dev/drain=5s",
            "all ; app!0 istio-proxy>accepted 4900ms",
            &[
                FINISHED,
                "istio-proxy.0 POST :15020/drain",
                "istio-proxy drain-accepted: the sidecar drains for 5s (recipe istio)",
            ],
        ),
        row(
            "drained",
            "Never app istio-proxy usher.dev/drain=5s",
            "all app!0 istio-proxy>accepted 4900ms ; 100ms",
            &[QUIT],
        ),
        row(
            "it ends while it drains",
            "Never app istio-proxy usher.dev/drain=5s",
            "all app!0 istio-proxy>accepted ; istio-proxy!0 10s",
            &["istio-proxy sidecar-ended: by itself, with exit code 0"],
        ),
        row(
            "no drain: the request is sent at once",
            "Never app istio-proxy usher.dev/drain=5s",
            "all ; app!0 istio-proxy>refused",
            &[
                FINISHED,
                "istio-proxy.0 POST :15020/drain",
                "istio-proxy step-failed: no listener; next is POST :15020/quitquitquit",
                QUIT,
            ],
        ),
        row(
            "a drain without a reply is not asked for again",
            "Never app istio-proxy usher.dev/drain=5s",
            "all app!0 istio-proxy>silent ; 4900ms",
            &[],
        ),
        row(
            "a drain without an answer in time has not asked it to end",
            "Never app istio-proxy usher.dev/drain=5s",
            "all app!0 istio-proxy>late ; istio-proxy!0 istio-proxy>refused",
            &["istio-proxy sidecar-ended: by itself"],
        ),
        row(
            "drained beside a step that would fail the pod",
            "Never app logs usher.dev/drain=5s",
            "all ; app!0",
            &["pod-finished: still running: logs", "logs.0 SIGTERM"],
        ),
        row(
            "a sidecar that has run for long refuses: three retries",
            "Never app istio-proxy",
            "all 1m app!0 ; istio-proxy>refused 5ms istio-proxy>refused 10ms istio-proxy>refused 20ms istio-proxy>refused",
            &[
                QUIT,
                QUIT,
                QUIT,
                "istio-proxy step-failed: no listener; next is POST :15000/quitquitquit",
                "istio-proxy.0 POST :15000/quitquitquit",
            ],
        ),
        row(
            "a refused request did not request its exit",
            "Never app istio-proxy",
            "all app!0 istio-proxy>500 ; istio-proxy!0 istio-proxy>refused",
            &["istio-proxy sidecar-ended: by itself"],
        ),
        row(
            "it has gone: its end is waited for",
            "Never app istio-proxy",
            "all app!0 ; istio-proxy>over 1900ms",
            &[],
        ),
        row(
            "a recipe knows how long it takes to end, and two seconds are added",
            "Never app daprd",
            "all app!0 daprd>accepted ; 6900ms",
            &[],
        ),
        row(
            "it took longer",
            "Never app daprd",
            "all app!0 daprd>accepted ; 7s",
            &[
                "daprd step-failed: but the sidecar still runs; next is SIGTERM",
                "daprd.0 SIGTERM",
            ],
        ),
        row(
            "who has just started does not hear a signal yet",
            "Never app logs",
            "pod +sandbox? +app +logs list ; app!0 400ms",
            &["pod-finished: still running: logs"],
        ),
        row(
            "and does, half a second later",
            "Never app logs",
            "pod +sandbox? +app +logs list ; app!0 500ms",
            &["pod-finished: still running: logs", "logs.0 SIGTERM"],
        ),
        row(
            "a signal is given half a minute",
            "Never app logs",
            "all app!0 logs>signalled ; 29s",
            &[],
        ),
        row(
            "a signal fails",
            "Never app logs",
            "all app!0 logs>signalled ; 30s",
            &[
                "logs step-failed: no step is left",
                "logs gave-up: delete the pod",
            ],
        ),
        row(
            "hostNetwork: loopback is not the pod's",
            "Never app istio-proxy host usher.dev/drain=5s",
            "all ; app!0",
            &[FINISHED, "istio-proxy.0 SIGTERM"],
        ),
        row(
            "hostNetwork: not even by annotation",
            "Never app tool host usher.dev/sidecars=tool=POST_:9091/quit",
            "all ; app!0",
            &["pod-finished: still running: tool", "tool.0 SIGTERM"],
        ),
    ]);
}
