//! How long each step and each attempt has.

use std::time::Duration;

use super::SidecarRun;
use crate::{
    base::time::Timestamp,
    recipe::{LadderStep, Purpose, step::Step},
    settings::config::Ladder,
};

/// First wait after a refused connection; doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Longest wait after a refused connection.
const LAST_RETRY: Duration = Duration::from_millis(250);
/// How long a process that closed the connection without a reply has to exit before the request is repeated; doubles each time. Istio
/// 1.31 exits 9 to 31 ms after it. But its status port is open some 10 ms before what supervises Envoy is there, 80 on a busy
/// node: a request in between panics in its handler, and pilot-agent runs on as if it had received no request
/// ([`SkipDrain`](https://github.com/istio/istio/blob/1.26.0/pkg/istio-agent/agent.go)).
const FIRST_AGAIN: Duration = Duration::from_millis(100);
/// How often a refused connection is retried with a sidecar that has run for long enough to listen.
const REFUSED_RETRIES: u32 = 3;
/// How long the port of a step may have no listener before the next request of the ladder is tried as well: Istio's status
/// port is open some 100 ms before Envoy's admin port, which ends the sidecar without a drain.
pub(super) const LOOK_AHEAD_AFTER: Duration = Duration::from_millis(500);
/// How long after its first port a sidecar may open another one. A port without a listener stays without one after that:
/// the pod has moved it, or switched it off.
pub(super) const PORTS_OPEN_WITHIN: Duration = Duration::from_secs(1);
/// The age from which a sidecar receives signals. Before, its process may be the runtime's, which a signal ends badly, or have no
/// handler yet: as the first process of a pid namespace it would never receive the signal
/// ([pid_namespaces(7)](https://man7.org/linux/man-pages/man7/pid_namespaces.7.html)).
pub(crate) const MIN_SIGNAL_AGE: Duration = Duration::from_millis(500);

/// The wait after a refused connection, after so many before.
pub(super) fn retry(before: u32) -> Duration {
    doubled(FIRST_RETRY, before).min(LAST_RETRY)
}

/// The wait after no reply, after so many before.
pub(super) fn again(before: u32) -> Duration {
    doubled(FIRST_AGAIN, before)
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16))
}

/// How long an accepted step has before the next one follows.
pub(crate) fn settle(step: &LadderStep, timings: &Ladder) -> Duration {
    match (step.purpose, &step.step) {
        (Purpose::Drain, _) => step.takes,
        (Purpose::Quit, Step::Request(_)) => step.takes + timings.settle,
        (Purpose::Quit, Step::Signal { .. }) => {
            (step.takes + timings.settle).max(timings.settle_signal)
        }
    }
}

/// Whether a refused connection may mean that the sidecar does not listen yet: it is young, and none of its ports has had a
/// listener for long. Any other sidecar gets a few more attempts, in case it is busy.
pub(super) fn may_listen_yet(
    now: Timestamp,
    sidecar: SidecarRun<'_>,
    step: &LadderStep,
    retries: u32,
) -> bool {
    let is_young = now.since(sidecar.since.unwrap_or(now)) < sidecar.timings.listen;
    let is_up = sidecar
        .listens_since
        .is_some_and(|since| now.since(since) >= PORTS_OPEN_WITHIN);
    step.purpose == Purpose::Quit && (is_young && !is_up || retries < REFUSED_RETRIES)
}
