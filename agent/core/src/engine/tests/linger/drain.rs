//! Drain of inbound connections while a sidecar lingers.

use super::*;
use crate::quit::outcome::Outcome;

impl Stage {
    fn drained(&mut self, run: &str, outcome: Outcome) -> String {
        self.log.clear();
        let key = key(run);
        self.send(Event::Drained { key, outcome });
        self.log.first().cloned().unwrap_or_default()
    }
}

#[test]
fn drains_once_when_the_deletion_is_known() {
    let mut stage = armed(requested());
    stage.delete(30, 0);
    stage.held_at(NOON);
    // The stop signal may belong to a restart.
    assert_eq!(stage.take(), [HELD]);
    stage.list();
    assert_eq!(stage.take(), [DRAIN]);
    let line = stage.drained("i", Outcome::Accepted);
    assert_eq!(
        line,
        "istio-proxy linger-drained: POST :15020/drain was accepted; the sidecar drains inbound connections while it lingers"
    );
    stage.list();
    stage.pass(seconds(10));
    assert_eq!(stage.take(), ["istio-proxy linger-drained"]);
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["stops []"]);
}

#[test]
fn restarted_sidecar_does_not_drain() {
    let mut stage = armed(requested());
    stage.held_at(NOON);
    stage.list();
    assert_eq!(stage.take(), [HELD, "stops []"]);
}

/// The stop signal waits as without a drain, and nothing is repeated.
#[test]
fn failed_drain_is_reported() {
    for (outcome, text) in [
        (Outcome::Refused, "found no listener"),
        (Outcome::Rejected(404), "was answered with status 404"),
        (Outcome::TimedOut, "timed out"),
        (Outcome::Failed("quarantined".to_owned()), "quarantined"),
    ] {
        let mut stage = Stage::lingering(requested());
        let line = stage.drained("i", outcome);
        assert!(
            line.starts_with("istio-proxy linger-drain-failed: POST :15020/drain"),
            "{line}"
        );
        assert!(line.contains(text), "{line}");
        stage.pass(seconds(10));
        assert_eq!(stage.take(), ["istio-proxy linger-drain-failed"]);
        stage.exit("a", 0);
        assert_eq!(stage.take(), ["stops []"]);
    }
}

/// The reply of a sidecar that has ended is only reported, and that of a request that was not sent has no effect.
#[test]
fn late_reply_is_harmless() {
    let mut stage = Stage::lingering(requested());
    stage.exit("i", 0);
    stage.take();
    stage.drained("i", Outcome::NoReply);
    assert_eq!(stage.take(), ["istio-proxy linger-drain-failed"]);
    stage.drained("j", Outcome::Accepted);
    assert_eq!(stage.take(), [""; 0]);
    stage.send(Event::PodGone(uid()));
    stage.take();
    stage.drained("i", Outcome::Accepted);
    assert_eq!(stage.take(), [""; 0]);
}

/// The drain of a dry run.
fn forecast(stage: &Stage) -> Option<String> {
    let forecast = stage.engine.forecast(stage.now, &uid(), None).unwrap();
    forecast.linger.unwrap().sidecars[0].drain.clone()
}

#[test]
fn dry_run_shows_the_drain() {
    let stage = armed(requested());
    assert_eq!(forecast(&stage).as_deref(), Some("POST :15020/drain"));
}

#[test]
fn no_drain_without_a_request_for_it() {
    let proxyless = |mut spec: Pod| {
        let proxy = spec.containers.iter_mut().find(|one| one.name == PROXY);
        let env = &mut proxy.unwrap().env;
        env.insert("DISABLE_ENVOY".to_owned(), "true".to_owned());
        spec
    };
    let host = Pod {
        host_network: true,
        ..requested()
    };
    for spec in [proxyless(requested()), host] {
        let mut stage = armed(spec);
        assert_eq!(forecast(&stage), None);
        stage.delete(30, 0);
        stage.held_at(NOON);
        stage.list();
        assert_eq!(stage.take(), [HELD]);
    }
}
