//! Pods that are deleted, and the sidecars that their last app leaves behind.

mod left_to_kubelet;

use super::{Scenario, check, row};

/// A pod of a Deployment in the mesh.
const MESHED: &str = "Always app istio-proxy args=istio-proxy=proxy_sidecar";
const ENDED: &str = "quit-on-deletion: usher terminates: istio-proxy";
const QUIT: &str = "istio-proxy.0 POST :15000/quitquitquit";
const ACCEPTED: &str =
    "istio-proxy quit-accepted: POST :15000/quitquitquit was accepted (recipe istio)";
const REQUESTED: &str = "istio-proxy sidecar-ended: as requested, with exit code 0";

#[test]
fn the_last_app_ended() {
    check(&[
        row(
            "the deletion is known",
            MESHED,
            "all deleting ; app!0 1m",
            &[ENDED, QUIT],
        ),
        row(
            "the kubelet is queried",
            MESHED,
            "all 10s marked ; app!0 1s",
            &[ENDED, QUIT],
        ),
        row(
            "by SIGTERM",
            MESHED,
            "all 10s marked ; app!TERM 1s",
            &[ENDED, QUIT],
        ),
        row(
            "the proxy ends",
            MESHED,
            "all deleting app!0 ; istio-proxy>accepted istio-proxy!0 1m",
            &[ACCEPTED, REQUESTED],
        ),
        row(
            "its end overtakes the reply",
            MESHED,
            "all deleting app!0 ; istio-proxy!0 istio-proxy>silent 1m",
            &[
                "istio-proxy quit-accepted: POST :15000/quitquitquit was sent and got no reply",
                REQUESTED,
            ],
        ),
        row(
            "it ended before",
            MESHED,
            "all deleting istio-proxy!0 ; app!0 1m",
            &[],
        ),
        row(
            "the admin port is another one",
            r#"Always app istio-proxy args=istio-proxy=proxy_sidecar env=istio-proxy=PROXY_CONFIG={"proxyAdminPort":15999}"#,
            "all deleting ; app!0 1m",
            &[ENDED, "istio-proxy.0 POST :15999/quitquitquit"],
        ),
        row(
            "after a delay",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar usher.dev/quit-delay=2s",
            "all deleting ; app!0 1s",
            &["waiting: requests a wait of 2s"],
        ),
        row(
            "the delay is over",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar usher.dev/quit-delay=2s",
            "all deleting app!0 1s ; 1m",
            &[ENDED, QUIT],
        ),
    ]);
}

#[test]
fn an_app_is_left() {
    check(&[
        row("it runs", MESHED, "all ; deleting 1m", &[]),
        row(
            "one of two",
            "Always app other istio-proxy args=istio-proxy=proxy_sidecar",
            "all deleting ; app!0 1m",
            &[],
        ),
        row(
            "the other one ends later",
            "Always app other istio-proxy args=istio-proxy=proxy_sidecar",
            "all deleting app!0 1m ; other!0 1m",
            &[ENDED, QUIT],
        ),
        row(
            "it is started again before the answer",
            MESHED,
            "all 10s marked ; app!1 +app 1m",
            &[],
        ),
        row(
            "it is being started again",
            MESHED,
            "all 10s marked ; app!1 ~app 1m",
            &[],
        ),
        row(
            "a run without a name may be its next one",
            MESHED,
            "all 10s marked ; app!1 +app? 1m",
            &[],
        ),
        row(
            "it never ran",
            MESHED,
            "pod +sandbox? +istio-proxy list ; deleting 1m",
            &[],
        ),
        row(
            "one of two never ran",
            "Always app other istio-proxy args=istio-proxy=proxy_sidecar",
            "pod +sandbox? +istio-proxy +app list ; deleting app!0 1m",
            &[],
        ),
        row(
            "it was created only",
            MESHED,
            "pod +sandbox? +istio-proxy *app list ; deleting app!created 1m",
            &[],
        ),
        row(
            "one of two was created only",
            "Always app other istio-proxy args=istio-proxy=proxy_sidecar",
            "pod +sandbox? +istio-proxy *app +other list ; deleting app!created other!0 1m",
            &[],
        ),
        row(
            "its end was not seen",
            MESHED,
            "pod +sandbox? +istio-proxy app=T0 list ; deleting 1m",
            &[],
        ),
        row(
            "the pod is not deleted: it restarts",
            MESHED,
            "all ; app!1 10s +app 1m",
            &[],
        ),
    ]);
}

#[test]
fn steps_that_fail_on_deletion() {
    const LEFT: &str = "istio-proxy left-to-kubelet: every step was tried and it still runs";
    check(&[
        row(
            "refused",
            MESHED,
            "all 10s deleting app!0 ; istio-proxy>refused 1s istio-proxy>refused 1s istio-proxy>refused 1s \
             istio-proxy>refused 1m",
            &[
                QUIT,
                QUIT,
                QUIT,
                "istio-proxy step-failed: POST :15000/quitquitquit found no listener; no step is left",
                LEFT,
            ],
        ),
        row(
            "rejected",
            MESHED,
            "all deleting app!0 ; istio-proxy>405 1m",
            &[
                "istio-proxy step-failed: POST :15000/quitquitquit was answered with status 405; no step is left",
                LEFT,
            ],
        ),
        row(
            "accepted without an end: never a second signal",
            MESHED,
            "all deleting app!0 ; istio-proxy>accepted 2m",
            &[
                ACCEPTED,
                "istio-proxy step-failed: POST :15000/quitquitquit was accepted, but the sidecar still runs; no step is left",
                LEFT,
            ],
        ),
    ]);
}

#[test]
fn modes_on_deletion() {
    const WOULD: &str =
        "istio-proxy would-quit-on-deletion: enforce would try POST :15000/quitquitquit first";
    check(&[
        row(
            "observe",
            MESHED,
            "observe all deleting ; app!0 1m",
            &[WOULD],
        ),
        row(
            "observe, and the kubelet is queried",
            MESHED,
            "observe all 10s marked ; app!0 1m",
            &[WOULD],
        ),
        row("off", MESHED, "off all deleting ; app!0 1m", &[]),
        row(
            "off, and opted out",
            "Always app istio-proxy usher.dev/quit=false",
            "off all deleting ; app!0 1m",
            &[],
        ),
        row(
            "observe, then enforce",
            MESHED,
            "observe all deleting app!0 ; enforce 1m",
            &[ENDED, QUIT],
        ),
        row(
            "enforce, then observe",
            MESHED,
            "all deleting app!0 ; observe istio-proxy>accepted istio-proxy!0 1m",
            &[WOULD, ACCEPTED, REQUESTED],
        ),
    ]);
}

/// Each exit of a last app causes one query; an exit that changes nothing causes none.
#[test]
fn queries_of_the_kubelet() {
    for (what, pod, events, expected) in [
        ("one end", MESHED, "app!1 1m", 1),
        ("two ends", MESHED, "app!1 1m +app 1m app!1 1m", 2),
        ("a burst", MESHED, "app!1 +app app!1 +app app!1 1m", 2),
        (
            "another app runs",
            "Always app other istio-proxy args=istio-proxy=proxy_sidecar",
            "app!1 1m",
            0,
        ),
        ("the deletion is known", MESHED, "deleting app!1 1m", 0),
        ("off", MESHED, "off 10s app!1 1m", 1),
        (
            "the proxy has ended before",
            MESHED,
            "istio-proxy!0 app!1 1m",
            1,
        ),
        ("no sidecar", "Always app", "app!1 1m", 0),
        ("no step", "Always app sql", "app!1 1m", 0),
        (
            "a gateway",
            "Always app istio-proxy args=istio-proxy=proxy_router",
            "app!1 1m",
            0,
        ),
        (
            "opted out",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar usher.dev/quit=false",
            "app!1 1m",
            0,
        ),
        (
            "hostNetwork",
            "Always app istio-proxy args=istio-proxy=proxy_sidecar host",
            "app!1 1m",
            0,
        ),
        ("a log shipper only", "Always app logs", "app!1 1m", 0),
    ] {
        let mut scenario = Scenario::new(pod, "");
        for word in ["all", "10s"] {
            scenario.apply(word);
        }
        let before = scenario.queries();
        for word in events.split_whitespace() {
            scenario.apply(word);
        }
        assert_eq!(scenario.queries() - before, expected, "{what}");
    }
}
