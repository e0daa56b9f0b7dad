//! Steps that end a sidecar with a code other than 0, and sidecars that restart: no step harms the
//! pod.

use super::{check, check_with, row};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const FINISHED: &str = "pod-finished: still running: istio-proxy";

#[test]
fn steps_that_would_fail_the_pod() {
    const FAILS: &str = "sql gave-up: SIGTERM would end the sidecar with exit code 143 and turn a succeeded pod into a failed one";
    const RESTARTS: &str = "sql gave-up: with exit code 143, after which it restarts";
    const KNOWN: &str = "sql quit-accepted: expected exit code 143";
    const SQL_LEFT: &str = "pod-finished: still running: sql";
    check(&[
        row(
            "the app succeeded",
            "Never app sql",
            "all ; app!0 1m",
            &[SQL_LEFT, FAILS],
        ),
        row(
            "the app failed: nothing is left to fail",
            "Never app sql",
            "all ; app!3 sql>signalled sql!TERM",
            &[
                SQL_LEFT,
                "sql.0 SIGTERM",
                KNOWN,
                "sql sidecar-ended: as requested, with signal 15",
            ],
        ),
        row(
            "observe mode promises no step that enforce refuses",
            "Never app sql",
            "observe all ; app!0 1m",
            &[SQL_LEFT, FAILS],
        ),
        row(
            "observe mode, and the app failed",
            "Never app sql",
            "observe all ; app!3 1m",
            &[SQL_LEFT, "sql would-quit: enforce would try SIGTERM first"],
        ),
        row(
            "observe mode, and the code is known after the exit",
            "Never app sql",
            "observe all ; app!later0 1m",
            &[SQL_LEFT, FAILS],
        ),
        row(
            "observe mode, and the code of a failed app is known after the exit",
            "Never app sql",
            "observe all ; app!later3 1m",
            &[SQL_LEFT, "sql would-quit: enforce would try SIGTERM first"],
        ),
        row(
            "observe mode, and the kubelet reports the code",
            "Never app sql",
            "observe all ; app! app=T3 list 1m",
            &[SQL_LEFT, "sql would-quit: enforce would try SIGTERM first"],
        ),
        row(
            "observe mode, and nothing reports the code",
            "Never app sql",
            "observe all ; app! 1h",
            &[SQL_LEFT, FAILS],
        ),
        row(
            "one of two apps failed",
            "Never app job sql",
            "all app!3 ; job!0",
            &[SQL_LEFT, "sql.0 SIGTERM"],
        ),
        row(
            "its author allows it",
            "Never app sql usher.dev/allow-pod-failure=true",
            "all ; app!0 sql>signalled",
            &[SQL_LEFT, "sql.0 SIGTERM", KNOWN],
        ),
        row(
            "OnFailure would start it again",
            "OnFailure app sql",
            "all ; app!0 1m",
            &[SQL_LEFT, RESTARTS],
        ),
        row(
            "OnFailure would start it again, whatever its author allows",
            "OnFailure app sql usher.dev/allow-pod-failure=true",
            "all ; app!0 1m",
            &[SQL_LEFT, RESTARTS],
        ),
        row(
            "a policy of its own keeps it down",
            "OnFailure app:Never sql:Never",
            "all ; app!3",
            &[SQL_LEFT, "sql.0 SIGTERM"],
        ),
        row(
            "how the app ended has to be found out",
            "Never app sql",
            "all ; app! 1s app=T0 list 1m",
            &[SQL_LEFT, FAILS],
        ),
        row(
            "how the app ended is found out to be well for the step",
            "Never app sql",
            "all app! ; app=T3 list",
            &["sql.0 SIGTERM"],
        ),
        row(
            "lists requested for other pods do not count as its retries",
            "Never app sql",
            "all ; app! list list list list list list list list list list list list list app=T3 1s list",
            &[SQL_LEFT, "sql.0 SIGTERM"],
        ),
        row(
            "the code arrives after the last poll",
            "Never app sql",
            "all app! 5m ; app=T3 list sql>signalled",
            &["sql.0 SIGTERM", KNOWN],
        ),
        row(
            "the code stays unknown: the pod does not fail",
            "Never app sql",
            "all ; app! 5m",
            &[SQL_LEFT, FAILS],
        ),
        row(
            "another container that ends badly and comes back fails nothing yet",
            "Never app logs:OnFailure sql",
            "all logs!1 ; app!0 1m",
            &[SQL_LEFT, "logs sidecar-ended: by itself", FAILS],
        ),
        row(
            "sidecar with policy Always",
            "Never app istio-proxy:Always",
            "all ; app!0 1m",
            &[
                FINISHED,
                "istio-proxy gave-up: with exit code 0, after which it restarts",
            ],
        ),
        row(
            "sidecar in a pod with policy Always",
            "Always app:Never istio-proxy",
            "all ; app!0 1m",
            &[FINISHED, "istio-proxy gave-up: after which it restarts"],
        ),
        row(
            "sidecar with a rule that starts it again",
            "Never app istio-proxy[0]",
            "all ; app!0 1m",
            &[
                FINISHED,
                "istio-proxy gave-up: with exit code 0, after which it restarts",
            ],
        ),
        row(
            "sidecar with a rule that starts the whole pod again",
            "Never app istio-proxy[!1=all]",
            "all ; app!0 1m",
            &[FINISHED, "istio-proxy gave-up: after which it restarts"],
        ),
        row(
            "sidecar with a rule about other codes",
            "Never app istio-proxy[!0]",
            "all ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "only the better steps are left out by a rule",
            "Never app sql[143]",
            "all ; app!3 1m",
            &[SQL_LEFT, RESTARTS],
        ),
    ]);
    check_with(
        &[
            row(
                "SIGKILL is allowed, and fails the pod as a last resort",
                "Never app sql",
                "config all ; app!0 sql>signalled sql!KILL",
                &[
                    SQL_LEFT,
                    "sql.0 SIGKILL",
                    "sql quit-accepted: exit code 137",
                    "sql sidecar-ended: as requested, with signal 9",
                ],
            ),
            row(
                "SIGKILL fails",
                "OnFailure app sql",
                "config all ; app!0 1m",
                &[SQL_LEFT, RESTARTS],
            ),
        ],
        "ladder: {kill: true}",
    );
}
