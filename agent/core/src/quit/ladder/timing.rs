//! How long each step, and each try of it, has.

use std::time::Duration;

use super::Candidate;
use crate::{
    base::time::Timestamp,
    recipe::{Purpose, Rung, step::Step},
    settings::config::Ladder,
};

/// First wait after "nobody listens"; doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Longest wait after "nobody listens".
const LAST_RETRY: Duration = Duration::from_millis(250);
/// How long a process that took a request without a reply has to end before it is asked again; doubles each time. Istio's
/// 1.31 ends 9 to 31 ms after it. But its status port is open some 10 ms before what supervises Envoy is there, 80 on a busy
/// node: a request in between panics in its handler, and pilot-agent runs on as if nothing had been asked
/// ([`SkipDrain`](https://github.com/istio/istio/blob/1.26.0/pkg/istio-agent/agent.go)).
const FIRST_AGAIN: Duration = Duration::from_millis(100);
/// How often "nobody listens" is doubted with a sidecar that has run for long
/// enough to listen.
const DOUBTS: u32 = 3;
/// How old a sidecar is that hears a signal. Before, its process may be the runtime's, which a signal ends badly, or have no
/// handler yet: as the first process of a pid namespace it would never know of the signal
/// ([pid_namespaces(7)](https://man7.org/linux/man-pages/man7/pid_namespaces.7.html)).
pub(crate) const HEARS: Duration = Duration::from_millis(500);

/// The wait after "nobody listens", which came so often before.
pub(super) fn retry(before: u32) -> Duration {
    doubled(FIRST_RETRY, before).min(LAST_RETRY)
}

/// The wait after no reply, which came so often before.
pub(super) fn again(before: u32) -> Duration {
    doubled(FIRST_AGAIN, before)
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16))
}

/// How long an accepted step has before the next one follows.
pub(crate) fn settle(rung: &Rung, timings: &Ladder) -> Duration {
    match (rung.purpose, &rung.step) {
        (Purpose::Drain, _) => rung.takes,
        (Purpose::Quit, Step::Request(_)) => rung.takes + timings.settle,
        (Purpose::Quit, Step::Signal { .. }) => {
            (rung.takes + timings.settle).max(timings.settle_signal)
        }
    }
}

/// Whether "nobody listens" may mean "not yet": the sidecar is young. One that
/// has run for long is asked a few times more, in case it is busy with itself.
pub(super) fn may_listen_yet(
    now: Timestamp,
    sidecar: Candidate<'_>,
    rung: &Rung,
    retries: u32,
) -> bool {
    let since = sidecar.since.unwrap_or(now);
    rung.purpose == Purpose::Quit && (now.since(since) < sidecar.timings.listen || retries < DOUBTS)
}
