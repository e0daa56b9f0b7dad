//! Whether an app container has ended for good: policy, rules and code.

use super::{check, row, scenario::Scenario};

const QUIT: &str = "istio-proxy.0 POST :15020/quitquitquit";
const FINISHED: &str =
    "pod-finished: every app container ended for good; still running: istio-proxy";
const PROBE: &str = "waiting: container app ended, and the kubelet has not reported whether it restarts it after a failed probe";

const RESIZE: &str = "waiting: container app ended, and the kubelet has not reported whether it restarts it after a resize";

const SANDBOX: &str = "waiting: container app ended, and the kubelet has not reported whether it restarts it after a change of the pod's sandbox";

const RUNS: &str = "waiting: app container app runs";

const AGAIN: &str = "istio-proxy.1 POST :15020/quitquitquit";

/// A pod, the exits after which its app is finished, and the exits after which its app restarts.
const ENDS: &[(&str, &str, &str)] = &[
    (
        "Never app istio-proxy",
        "0 1 3 42 137 143 255 KILL TERM",
        "",
    ),
    (
        "OnFailure app istio-proxy",
        "0",
        "1 3 42 137 143 255 KILL TERM",
    ),
    // The container's own policy overrides the pod's.
    ("Never app:OnFailure istio-proxy", "0", "1 3 42 KILL TERM"),
    (
        "OnFailure app:Never istio-proxy",
        "0 1 3 42 255 KILL TERM",
        "",
    ),
    ("Always app:Never istio-proxy:Never", "0 1 42 KILL", ""),
    ("Always app:OnFailure istio-proxy:Never", "0", "1 42 KILL"),
    // Its rules override both policies.
    ("Never app[42] istio-proxy", "0 1 3 255 KILL TERM", "42"),
    ("Never app[42,3] istio-proxy", "0 1 255", "42 3"),
    (
        "Never app[137,143] istio-proxy",
        "0 1 42",
        "KILL TERM 137 143",
    ),
    ("Never app[!0] istio-proxy", "0", "1 3 42 KILL TERM 255"),
    ("Never app[!0,1] istio-proxy", "0 1", "3 42 KILL TERM"),
    ("Never app[!42] istio-proxy", "42", "0 1 3 KILL"),
    ("OnFailure app[0] istio-proxy", "", "0 1 42 KILL"),
    ("OnFailure app:Never[42] istio-proxy", "0 1 3 KILL", "42"),
    ("OnFailure app[42] istio-proxy", "0", "1 42 KILL"),
    ("Never app[42][3] istio-proxy", "0 1 255", "42 3"),
    ("Never app[42=all] istio-proxy", "0 1 3 KILL", "42"),
    ("Never app[!0=all] istio-proxy", "0", "1 3 42 KILL"),
    // A rule of an unknown kind may apply to any code.
    ("Never app[!] istio-proxy", "", "0 1 42 KILL"),
    ("OnFailure app[!] istio-proxy", "", "0 1"),
];

#[test]
fn policy_rules_and_code() {
    let ended = |pod: &str, how: &str| {
        let mut scenario = Scenario::new(pod, "");
        for word in ["all", ";", &format!("app!{how}")] {
            scenario.apply(word);
        }
        scenario.reported()
    };
    for (pod, for_good, comes_back) in ENDS {
        for how in for_good.split_whitespace() {
            assert_eq!(ended(pod, how), [FINISHED, QUIT], "{pod} | {how}");
        }
        for how in comes_back.split_whitespace() {
            let code = match how {
                "KILL" => "137",
                "TERM" => "143",
                code => code,
            };
            let reported = ended(pod, how);
            let why = if pod.contains("=all") {
                "because a rule restarts the whole pod".to_owned()
            } else {
                format!("ended with exit code {code} and restarts")
            };
            assert_eq!(reported.len(), 1, "{pod} | {how}: {reported:?}");
            assert!(reported[0].contains(&why), "{pod} | {how}: {reported:?}");
        }
    }
}

/// The kubelet kills a container with a failed probe and starts it again, whatever its exit code.
#[test]
fn failed_probes() {
    check(&[
        row(
            "it was killed for a probe, ends with 0 and restarts",
            "OnFailure app istio-proxy probe=app",
            "all ; app!0 list +app 1m",
            &[PROBE, "waiting: app container app runs"],
        ),
        row(
            "it waits in CrashLoopBackOff",
            "OnFailure app istio-proxy probe=app",
            "all ; app!0 app=W0 list 1m",
            &[PROBE],
        ),
        row(
            "it ended by itself, as the kubelet reports",
            "OnFailure app istio-proxy probe=app",
            "all ; app!0 app=T0 list",
            &[PROBE, FINISHED, QUIT],
        ),
        row(
            "the kubelet reports it after two minutes",
            "OnFailure app istio-proxy probe=app",
            "all ; app!0 2m app=T0 31s",
            &[PROBE, FINISHED, QUIT],
        ),
        row(
            "under Never no probe restarts it",
            "Never app istio-proxy probe=app",
            "all ; app!1",
            &[FINISHED, QUIT],
        ),
        row(
            "the policy of the pod counts as well",
            "OnFailure app:Never istio-proxy probe=app",
            "all ; app!TERM list +app",
            &[PROBE, "waiting: app container app runs"],
        ),
    ]);
}

/// The kubelet restarts all containers of a pod whose pause process died. An app that ends with 0 on its SIGTERM is one of
/// them.
#[test]
fn new_sandboxes() {
    let pod = "OnFailure app istio-proxy";
    check(&[
        row(
            "all new containers are found at once, the app's last",
            pod,
            "all istio-proxy!KILL sandbox!KILL app!0 ; ~sandbox ~app +istio-proxy app>started",
            &[SANDBOX, RUNS],
        ),
        row(
            "the same with a list that is out of date",
            pod,
            "all istio-proxy!KILL sandbox!KILL app!0 ; ~sandbox ~app +istio-proxy app=T0@app.0 list app>started",
            &[SANDBOX, RUNS],
        ),
        row(
            "the kubelet starts the sidecar long before the app",
            pod,
            "all istio-proxy!KILL sandbox!KILL app!0 ; +sandbox? +istio-proxy app=R@app.0 list 2s +app",
            &[SANDBOX, RUNS],
        ),
        row(
            "the app ends first",
            pod,
            "all app!0 istio-proxy!KILL sandbox!KILL ; +sandbox? +istio-proxy 2s +app",
            &[SANDBOX, RUNS],
        ),
        row(
            "the app had ended for good, as the kubelet reports",
            pod,
            "all istio-proxy!KILL sandbox!KILL app!0 ; +sandbox? +istio-proxy app=T0@app.0 list",
            &[SANDBOX, FINISHED, AGAIN],
        ),
        row(
            "no container restarts under this policy",
            "Never app istio-proxy",
            "all app!0 ; +sandbox?",
            &[],
        ),
        row(
            "a sandbox without a process, found after the app, is no new one",
            "OnFailure app istio-proxy",
            "pod +istio-proxy +app ~sandbox list ; app!0",
            &[FINISHED, QUIT],
        ),
    ]);
}

/// The kubelet restarts a container whose resources change, if its resize policy says so, whatever its exit code.
#[test]
fn resizes() {
    check(&[
        row(
            "it was killed for a resize, ends with 0 and restarts",
            "OnFailure app istio-proxy resize=app",
            "all ; app!0 list +app 1m",
            &[RESIZE, "waiting: app container app runs"],
        ),
        row(
            "it ended by itself, as the kubelet reports",
            "OnFailure app istio-proxy resize=app",
            "all ; app!0 app=T0 list",
            &[RESIZE, FINISHED, QUIT],
        ),
        row(
            "a container that restarts is reported as such",
            "OnFailure app istio-proxy resize=app",
            "all ; app!1",
            &["waiting: container app ended with exit code 1 and restarts"],
        ),
        row(
            "the resize policy of a sidecar does not matter",
            "OnFailure app istio-proxy resize=istio-proxy",
            "all ; app!0",
            &[FINISHED, QUIT],
        ),
    ]);
}

#[test]
fn restarts() {
    check(&[
        row(
            "once",
            "OnFailure app istio-proxy",
            "all app!1 ; +app app!0",
            &["waiting: app container app runs", FINISHED, QUIT],
        ),
        row(
            "often, with waits in between",
            "OnFailure app istio-proxy",
            "all app!1 app=W1 10s +app app!3 app=W3 20s +app app!KILL app=W137 ; +app app=R list app!0",
            &["waiting: app container app runs", FINISHED, QUIT],
        ),
        row(
            "by a rule, until another code",
            "Never app[42] istio-proxy",
            "all app!42 +app app!42 +app ; app!3",
            &[FINISHED, QUIT],
        ),
        row(
            "the last one was asked for nothing: it waits for ever",
            "OnFailure app istio-proxy",
            "all app!1 ; app=W1 list 10m",
            &[],
        ),
        row(
            "a status that says nothing of the restart",
            "OnFailure app istio-proxy",
            "all app=R list app!1 +app ; list app!0 list",
            &[FINISHED, QUIT],
        ),
        row(
            "two apps: the last one counts",
            "Never app job istio-proxy",
            "all ; job!1 app!0",
            &[FINISHED, QUIT],
        ),
        row(
            "two apps: one comes back",
            "Never app job:OnFailure istio-proxy",
            "all ; job!1 app!0",
            &["waiting: app container job ended with exit code 1"],
        ),
        row(
            "two apps: one has policy Always",
            "Never app job:Always istio-proxy",
            "all app!0 job!0",
            &[
                "waiting: the kubelet does not list the pod",
                "waiting: the API server has not returned the pod's Namespace yet",
                "not-applicable: app container job restarts whatever",
            ],
        ),
        row(
            "policy Always",
            "Always app istio-proxy",
            "all app!0 1m",
            &[
                "waiting: the kubelet does not list the pod",
                "waiting: the API server has not returned the pod's Namespace yet",
                "not-applicable: app container app restarts whatever",
            ],
        ),
        row(
            "policy Always, and a rule",
            "Always app[42] istio-proxy",
            "all ; app!1 1m",
            &[],
        ),
    ]);
}
