//! Rules that restart the whole pod, with its finished containers (KEP-5532).

use super::{check, row};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const AGAIN: &str = "istio-proxy.1 POST :15020/quitquitquit";
const FINISHED: &str = "pod-finished: still running: istio-proxy";
const COMES: &str = "waiting: app container app restarts, because a rule restarts the whole pod";
const RUNS: &str = "waiting: app container app runs";
const JOB: &str = "waiting: app container job restarts, because a rule restarts the whole pod";

#[test]
fn restarted_pod_runs_finished_containers_again() {
    check(&[
        row(
            "not finished before the other's new run",
            "Never app[42=all] job istio-proxy",
            "all job!0 ; app!42 istio-proxy!KILL +app app!0",
            &[COMES, RUNS, JOB],
        ),
        row(
            "finished after it",
            "Never app[42=all] job istio-proxy",
            "all job!0 app!42 istio-proxy!KILL +app app!0 ; +job +istio-proxy job!0",
            &["waiting: app container job runs", FINISHED, AGAIN],
        ),
        row(
            "the other was killed for it",
            "Never app[42=all] job istio-proxy",
            "all app!42 job!KILL istio-proxy!KILL ; +app app!0",
            &[RUNS, JOB],
        ),
        row(
            "the other comes first in the spec",
            "Never job app[42=all] istio-proxy",
            "all job!0 app!42 istio-proxy!KILL +job job!0 ; +app app!0 +istio-proxy",
            &[RUNS, FINISHED, AGAIN],
        ),
        row(
            "the other comes first in the spec, and its new run has no name yet",
            "Never job app[42=all] istio-proxy",
            "all job!0 app!42 istio-proxy!KILL +job? +app ; app!0 +istio-proxy",
            &[],
        ),
        row(
            "twice",
            "Never app[42=all] job istio-proxy",
            "all job!0 app!42 +app +job job!0 app!42 ; +app app!0",
            &[RUNS, JOB],
        ),
        row(
            "a native sidecar's rule: what was killed for it comes back",
            "Never init=watch[42=all] app istio-proxy",
            "all +watch ; watch!42 app!KILL istio-proxy!KILL +watch +istio-proxy",
            &[COMES],
        ),
        row(
            "a native sidecar's rule, and then the end",
            "Never init=watch[42=all] app istio-proxy",
            "all +watch watch!42 app!KILL istio-proxy!KILL +watch ; +app +istio-proxy app!0",
            &[RUNS, FINISHED, AGAIN],
        ),
        row(
            "another code",
            "Never app[42=all] job istio-proxy",
            "all job!0 ; app!3",
            &[FINISHED, QUIT],
        ),
        row(
            "the first rule that applies decides, and it restarts one container",
            "Never app[42][!0=all] job istio-proxy",
            "all job!0 app!42 +app ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "the first rule that applies decides, and it restarts all",
            "Never app[!0=all][42] job istio-proxy",
            "all job!0 app!42 +app ; app!0",
            &[JOB],
        ),
    ]);
}

#[test]
fn the_kubelet_was_at_work() {
    check(&[
        row(
            "it was starting the others when one ended; they are killed as well",
            "Never app[42=all] job istio-proxy",
            "pod list +app app!42 +job job!KILL ; +app app!0",
            &[RUNS, JOB],
        ),
        row(
            "they start again",
            "Never app[42=all] job istio-proxy",
            "pod list +app app!42 +job job!KILL +app app!0 ; +job +istio-proxy job!0",
            &["waiting: app container job runs", FINISHED, QUIT],
        ),
        row(
            "they start again before the one that asked for it",
            "Never app[42=all] job istio-proxy",
            "all job!0 app!42 istio-proxy!KILL +job +app app!0 ; +istio-proxy job!0",
            &[FINISHED, AGAIN],
        ),
    ]);
}

#[test]
fn facts_only_the_kubelet_knows() {
    check(&[
        row(
            "the code comes with the status",
            "Never app[42=all] job istio-proxy",
            "all job!0 ; app! app=T42 list",
            &["waiting: depends on its exit code", COMES],
        ),
        row(
            "the code comes with the next run's status",
            "Never app[42=all] job istio-proxy",
            "all job!0 app! +app ; app!0 app=T0 list",
            &["waiting: depends on its exit code", FINISHED, QUIT],
        ),
        row(
            "the status shows that an unnamed run requested it",
            "Never app[42=all] job istio-proxy",
            "pod +job +istio-proxy job!0 list ?x +app ; app=R42@x list app!0",
            &[JOB],
        ),
        row(
            "it ended before the first list reported the rule",
            "Never app istio-proxy[1=all]",
            "pod +istio-proxy ~app app! istio-proxy!1 +istio-proxy app!0 ~app app=R@app.0 ; list",
            &[
                "waiting: the API server has not returned the pod's Namespace yet",
                COMES,
            ],
        ),
        row(
            "what ended before the agent started comes back, too",
            "Never app[42=all] job istio-proxy",
            "pod +app +istio-proxy job=T0@x list app!42 ; +app app!0 1m",
            &[RUNS, JOB],
        ),
        row(
            "it had ended before the agent started, and runs again",
            "Never app[42=all] job istio-proxy",
            "pod +app +istio-proxy job=T0@x list app!42 istio-proxy!KILL +app app!0 ; +job +istio-proxy job!0",
            &["waiting: app container job runs", FINISHED, AGAIN],
        ),
        row(
            "an init container's rule, and it ended before usher looked",
            "Never init=first[42=all] app istio-proxy",
            "pod +app +istio-proxy 1m list ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "one whose end is known by the kubelet's word is not what ended without a name",
            "Never first[42=all] app istio-proxy",
            "pod +app +istio-proxy first=T0@first.0 1m list ?x ; app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "a sidecar ends, and its code may mean a restart",
            "Never app istio-proxy logs[1=all]",
            "all logs! ; app!0 logs=R list",
            &["waiting: depends on its exit code"],
        ),
        row(
            "it means one",
            "Never app istio-proxy logs[1=all]",
            "all logs! app!0 ; logs=T1 list",
            &["waiting: app container app restarts, because a rule restarts the whole pod"],
        ),
        row(
            "it means none",
            "Never app istio-proxy logs[1=all]",
            "all logs! app!0 ; logs=T0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "a sidecar whose rule restarts all may have had a run without a name",
            "Never app istio-proxy[42=all]",
            "pod list +app ?x +istio-proxy ; app!0",
            &["waiting: container istio-proxy ended; whether"],
        ),
        row(
            "it had one, which is no matter",
            "Never app istio-proxy[42=all]",
            "pod list +app ?x +istio-proxy app!0 ; istio-proxy=R list",
            &[FINISHED, QUIT],
        ),
        row(
            "a sidecar whose rule restarts all may have been what ended without a name",
            "Never app istio-proxy logs[1=all]",
            "pod list +app +istio-proxy ?x ; app!0",
            &["waiting: the kernel did not show container logs"],
        ),
    ]);
}
