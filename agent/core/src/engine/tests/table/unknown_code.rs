//! Apps whose exit code the kernel does not report: the kubelet's status decides.

use super::{check, row};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const FINISHED: &str =
    "pod-finished: every app container ended for good; still running: istio-proxy";

#[test]
fn exit_codes_unknown_to_the_kernel() {
    check(&[
        row(
            "none is needed under Never",
            "Never app istio-proxy",
            "all ; app!",
            &[FINISHED, QUIT],
        ),
        row(
            "OnFailure needs it, and an old status does not tell it",
            "OnFailure app istio-proxy",
            "all ; app! app=R list",
            &["waiting: whether it restarts"],
        ),
        row(
            "the kubelet reports it after two minutes",
            "OnFailure app istio-proxy",
            "all ; app! 2m app=T0 31s",
            &["waiting: whether it restarts", FINISHED, QUIT],
        ),
        row(
            "polls for its start had become rare",
            "OnFailure app istio-proxy",
            "pod +istio-proxy list 30s +app 2s ; app! app=T0 3s",
            &["waiting: whether it restarts", FINISHED, QUIT],
        ),
        row(
            "the status tells 0",
            "OnFailure app istio-proxy",
            "all app! ; app=T0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "the status tells 3",
            "OnFailure app istio-proxy",
            "all app! ; app=T3 list",
            &["waiting: ended with exit code 3 and restarts"],
        ),
        row(
            "it is in CrashLoopBackOff already",
            "OnFailure app istio-proxy",
            "all app! ; app=W3 list 60s",
            &["waiting: ended with exit code 3 and restarts"],
        ),
        row(
            "the next run was never named, and ended for good",
            "OnFailure app istio-proxy",
            "all app!1 10s ; ?x app=T0@x 1m",
            &[
                "waiting: the kernel did not show container app",
                FINISHED,
                QUIT,
            ],
        ),
        row(
            "the kernel did not show the next run, which ended for good",
            "OnFailure app istio-proxy",
            "all app!1 10s ; app=L0@x 6m",
            &[FINISHED, QUIT],
        ),
        row(
            "the kernel did not show the next run, which failed",
            "OnFailure app istio-proxy",
            "all app!1 10s ; app=L1@x 6m",
            &[],
        ),
        row(
            "the kernel did not show the run after a failed probe",
            "OnFailure app istio-proxy probe=app",
            "all app!0 ; app=L0@x 1m",
            &[FINISHED, QUIT],
        ),
        row(
            "so it was after a run that usher did not observe",
            "OnFailure app istio-proxy",
            "pod +istio-proxy app=W1@app.0 list 10s ; ?x app=T0@x 1m",
            &[
                "waiting: the kernel did not show container app",
                FINISHED,
                QUIT,
            ],
        ),
        row(
            "rules need it under Never",
            "Never app[42] istio-proxy",
            "all ; app! app=T42 list",
            &[
                "waiting: whether it restarts",
                "waiting: ended with exit code 42",
            ],
        ),
        row(
            "it was killed before it had begun, and restarts whatever the policy",
            "Never app istio-proxy",
            "all ; app!created 5s +app 1m app!1",
            &[
                "waiting: the kernel did not show container app",
                "waiting: app container app runs",
                FINISHED,
                QUIT,
            ],
        ),
        row(
            "its cgroup went unseen, and the kubelet says that it was only created",
            "Never app istio-proxy",
            "pod +istio-proxy app=W@app.0 list ; ?app.0 app=T0@app.0 list",
            &[
                "waiting: the kernel did not show container app",
                FINISHED,
                QUIT,
            ],
        ),
        row(
            "its cgroup went unseen, and the kubelet reports that it ran: usher does not repeat its request",
            "Never app istio-proxy",
            "pod +istio-proxy ; app=R@app.0 list ?app.0",
            &[
                "waiting: the API server has not returned the pod's Namespace yet",
                FINISHED,
                QUIT,
                "waiting: has not started yet",
                FINISHED,
            ],
        ),
        row(
            "it ran and ended unobserved, and its status arrives without any other request to the kubelet",
            "Never app istio-proxy",
            "pod +istio-proxy app=W list 20s ; app=T0 100s",
            &[FINISHED, QUIT],
        ),
        row(
            "its cgroup went before anybody saw its program or its end: it may only have been created",
            "Never app istio-proxy",
            "pod +istio-proxy *app list ; app>gone app=W list",
            &["waiting: the kernel did not show container app"],
        ),
        row(
            "the same, and the kubelet says that it ended",
            "Never app istio-proxy",
            "pod +istio-proxy *app list app>gone ; app=T0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "the runtime could not start it, and left its cgroup without a process",
            "Never app istio-proxy",
            "pod +istio-proxy ~app list ; app=T128 list",
            &[FINISHED, QUIT],
        ),
        row(
            "the same, with a process that never ran the program",
            "Never app istio-proxy",
            "pod +istio-proxy *app list ; app=T128 list",
            &[FINISHED, QUIT],
        ),
        row(
            "the same, and it restarts",
            "OnFailure app istio-proxy",
            "pod +istio-proxy ~app list ; app=T128 list ; +app app!0",
            &["waiting: app container app runs", FINISHED, QUIT],
        ),
        row(
            "the same, and its end is reported late",
            "Never app istio-proxy",
            "pod +istio-proxy *app list app>gone ; app! 1s",
            &[FINISHED, QUIT],
        ),
        row(
            "its cgroup was removed unseen, and the late report has its name only",
            "Never app istio-proxy",
            "pod +istio-proxy ~app list ?app.0 ; app>started app=W@app.0 list",
            &[],
        ),
        row(
            "the same, and the kubelet speaks of the run before",
            "Never app istio-proxy",
            "pod +istio-proxy ~app app=R@app.9 list ?app.0 ; app>started 1s",
            &["waiting: the kernel did not show container app"],
        ),
        row(
            "the same, and it was only created",
            "Never app istio-proxy",
            "pod +istio-proxy ~app list ?app.0 ; app>started app!created",
            &[],
        ),
        row(
            "the same, and the kubelet says that it ended",
            "Never app istio-proxy",
            "pod +istio-proxy ~app list ?app.0 ; app>started app=T0@app.0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "the same, and that it ran is reported late as well: an older status does not count",
            "Never app istio-proxy",
            "pod +istio-proxy ~app list ?app.0 ; app>started app>executed app=W@app.0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "the same, and only its end is reported late",
            "Never app istio-proxy",
            "pod +istio-proxy ~app list ?app.0 ; app>started app! app=W@app.0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "the same, and only its code is reported late",
            "Never app istio-proxy",
            "pod +istio-proxy ~app list ?app.0 ; app>started app!0 app=W@app.0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "it was killed before it had begun, and is not started again",
            "Never app istio-proxy",
            "all ; app!created app=T128 list",
            &[
                "waiting: the kernel did not show container app",
                FINISHED,
                QUIT,
            ],
        ),
        row(
            "what was created first lives on beside it, and was never started",
            "Never app istio-proxy",
            "pod +sandbox? *app +istio-proxy 1m list ; +app app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "it is not asked for while another app runs",
            "OnFailure app job istio-proxy",
            "all ; job! 1m",
            &[],
        ),
        row(
            "another run's code is not this one's",
            "OnFailure app istio-proxy",
            "all ; app!1 +app app! app=T0@app.0 list",
            &[
                "waiting: ended with exit code 1",
                "waiting: runs",
                "waiting: whether it restarts",
            ],
        ),
        row(
            "the kernel's code overrides the status",
            "OnFailure app istio-proxy",
            "all ; app!3 app=T0 list",
            &["waiting: ended with exit code 3"],
        ),
    ]);
}
