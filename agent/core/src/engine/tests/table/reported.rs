//! Completed actions are reported, even if the pod changed between a request and its reply.

use super::{check, row};

const ACCEPTED: &str = "istio-proxy quit-accepted: POST :15020/quitquitquit was accepted";
const ENDED: &str = "istio-proxy sidecar-ended: as requested";
const FAILED: &str = "istio-proxy step-failed: 404";
const DOUBT: &str = "waiting: the kernel did not show container app";

#[test]
fn in_doubt_since() {
    check(&[
        row(
            "by a status from before the app began",
            "Never app istio-proxy",
            "pod +istio-proxy app=R@app.0 list ?app.0 ; app=W@app.0 list istio-proxy>accepted istio-proxy!0 1s",
            &[DOUBT, ACCEPTED, ENDED],
        ),
        row(
            "and not any more before it answers",
            "Never app istio-proxy",
            "pod +istio-proxy app=R@app.0 list ?app.0 ; app=W@app.0 list app=T0@app.0 list istio-proxy>accepted istio-proxy!0 1s",
            &[DOUBT, ACCEPTED, ENDED],
        ),
        row(
            "and not any more once it has answered: it is not asked again",
            "Never app istio-proxy",
            "pod +istio-proxy app=R@app.0 list ?app.0 istio-proxy>accepted ; app=W@app.0 list 1s app=T0@app.0 list istio-proxy!0",
            &[DOUBT, ENDED],
        ),
        row(
            "no other step is taken meanwhile",
            "Never app istio-proxy",
            "pod +istio-proxy app=R@app.0 list ?app.0 ; app=W@app.0 list istio-proxy>404 1s",
            &[DOUBT, FAILED],
        ),
        row(
            "and it is when the doubt is over",
            "Never app istio-proxy",
            "pod +istio-proxy app=R@app.0 list ?app.0 ; app=W@app.0 list istio-proxy>404 1s app=T0@app.0 list",
            &[DOUBT, FAILED, "istio-proxy.0 POST :15000/quitquitquit"],
        ),
    ]);
}

#[test]
fn unfinished_since() {
    const RUNS: &str = "waiting: app container app runs";
    check(&[
        row(
            "the app came back before the answer",
            "Never app istio-proxy",
            "all app!0 ; +app istio-proxy>accepted istio-proxy!0",
            &[RUNS, ACCEPTED, ENDED],
        ),
        row(
            "the app came back after the answer",
            "Never app istio-proxy",
            "all app!0 istio-proxy>accepted ; +app istio-proxy!0",
            &[RUNS, ENDED],
        ),
        row(
            "a failed step is not reported as done",
            "Never app istio-proxy",
            "all app!0 ; +app istio-proxy>404 istio-proxy!0 1m",
            &[RUNS],
        ),
        row(
            "when it ends again it is asked again",
            "Never app istio-proxy",
            "all app!0 ; +app istio-proxy>404 app!0",
            &[
                RUNS,
                "pod-finished: still running: istio-proxy",
                "istio-proxy.0 POST :15020/quitquitquit",
            ],
        ),
    ]);
}

#[test]
fn left_alone_since() {
    check(&[
        row(
            "deleted",
            "Never app istio-proxy",
            "all app!0 ; deleting istio-proxy>accepted istio-proxy!0",
            &["skipped: the pod is being deleted", ACCEPTED, ENDED],
        ),
        row(
            "opted out",
            "Never app istio-proxy",
            "all app!0 ; usher.dev/quit=false list istio-proxy>accepted istio-proxy!0",
            &["skipped: usher.dev/quit is \"false\"", ACCEPTED, ENDED],
        ),
        row(
            "deleted before the sidecar received it",
            "Never app istio-proxy",
            "all app!0 ; deleting istio-proxy>404 istio-proxy!0",
            &["skipped: the pod is being deleted"],
        ),
        row(
            "switched off",
            "Never app istio-proxy",
            "all app!0 ; off istio-proxy>accepted istio-proxy!0",
            &[ACCEPTED, ENDED],
        ),
        row(
            "observed only",
            "Never app istio-proxy",
            "all app!0 ; observe istio-proxy>accepted istio-proxy!0",
            &["istio-proxy would-quit", ACCEPTED, ENDED],
        ),
    ]);
}

#[test]
fn the_exit_of_a_sidecar_with_an_unseen_start() {
    const ENDED: &str = "istio-proxy sidecar-ended: the sidecar ended as requested";
    check(&[
        row(
            "it ended after its answer",
            "Never app istio-proxy",
            "pod *istio-proxy +app list app!0 ; istio-proxy>accepted istio-proxy!created",
            &[ACCEPTED, ENDED],
        ),
        row(
            "it ended before its reply arrived",
            "Never app istio-proxy",
            "pod *istio-proxy +app list app!0 ; istio-proxy!created istio-proxy>accepted",
            &[ACCEPTED, ENDED],
        ),
    ]);
}
