//! Observe mode reports the stop signals that would have waited.

use super::*;

impl Stage {
    /// In observe mode: the sidecar ends after two seconds, and the app after this time.
    fn observed(spec: Pod, is_deleted: bool, app: Duration) -> Vec<String> {
        let mut stage = stage(Mode::Observe, spec);
        stage.pass(seconds(1000));
        if is_deleted {
            stage.delete(30, 0);
        }
        stage.pass(seconds(2));
        stage.exit("i", 0);
        stage.pass(app - seconds(2));
        // Later events do not change the report.
        stage.delete(30, 0);
        stage.exit("a", 0);
        stage.list();
        stage.take();
        let about = stage.log.into_iter();
        about.filter(|line| line.contains("linger")).collect()
    }
}

#[test]
fn observe_mode_reports_how_long_before_its_app_a_sidecar_ended() {
    let plain = || pod(RestartPolicy::Always, &["app"]);
    for spec in [requested(), plain()] {
        assert_eq!(
            Stage::observed(spec, true, seconds(9)),
            [
                "istio-proxy would-linger: it ended 7000 ms before the last app of the deleted pod; with usher.dev/linger its stop signal would have waited"
            ]
        );
    }
    let none: [String; 0] = [];
    assert_eq!(
        Stage::observed(plain(), true, Duration::from_millis(2500)),
        none
    );
    // The sidecar crashed, and the pod was not deleted.
    assert_eq!(Stage::observed(plain(), false, seconds(9)), none);
    let opted_out = annotated(plain(), "false");
    assert_eq!(Stage::observed(opted_out, true, seconds(9)), none);
}
