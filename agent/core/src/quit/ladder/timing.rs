//! Time limits of steps and attempts.

use std::time::Duration;

use super::SidecarRun;
use crate::{
    base::time::Timestamp,
    recipe::{ExitCode, LadderStep, Purpose, step::Step},
    settings::config::Ladder,
};

/// First wait after a refused connection; doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Longest wait after a refused connection.
const LAST_RETRY: Duration = Duration::from_millis(250);
/// How long a process that closed the connection without a reply has to exit before the request is repeated; doubles
/// each time. Istio 1.31 exits 9 to 31 ms after it. But its status port opens some 10 ms before the supervisor of
/// Envoy is ready, 80 on a busy node: a request in between panics in its handler, and pilot-agent continues as if it
/// had received no request ([`SkipDrain`](https://github.com/istio/istio/blob/1.26.0/pkg/istio-agent/agent.go)).
const FIRST_AGAIN: Duration = Duration::from_millis(100);
/// How often a refused connection is retried with a sidecar that has run for long enough to listen.
const REFUSED_RETRIES: u32 = 3;
/// How long the port of a step may have no listener before the next request of the ladder is tried as well: Istio's status
/// port is open some 100 ms before Envoy's admin port, which ends the sidecar without a drain.
pub(super) const LOOK_AHEAD_AFTER: Duration = Duration::from_millis(500);
/// How long after its first port a sidecar may open another one. After that, a port without a listener never gets
/// one: the pod has moved it, or switched it off.
pub(super) const PORTS_OPEN_WITHIN: Duration = Duration::from_secs(1);
/// The shortest wait for a port of a sidecar that may be starting, where a signal would end the sidecar at once.
const PORTS_AWAITED: Duration = Duration::from_secs(2);
/// The time from the start of its program to the first signal that a sidecar receives. Before, its process may have no handler
/// yet: as the first process of a pid namespace it would never receive the signal
/// ([pid_namespaces(7)](https://man7.org/linux/man-pages/man7/pid_namespaces.7.html)).
pub(crate) const MIN_SIGNAL_AGE: Duration = Duration::from_millis(500);
/// How often usher checks whether the program has started, where a signal is due. Before that, the process is the
/// runtime's, which waits for the start of a created container: the signal would end it, and the container would fail
/// with a StartError. On a busy node the start takes seconds.
const EXECUTION_AGAIN: Duration = Duration::from_millis(250);
/// Longer than usher waits to observe the program of a container.
const EXECUTION_UNSEEN: Duration = Duration::from_secs(900);

/// The wait after a refused connection, by the number of earlier ones.
pub(super) fn retry(before: u32) -> Duration {
    doubled(FIRST_RETRY, before).min(LAST_RETRY)
}

/// The wait after a missing reply, by the number of earlier ones.
pub(super) fn again(before: u32) -> Duration {
    doubled(FIRST_AGAIN, before)
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16))
}

/// The time before which a sidecar receives no signal; None if it may receive one now.
pub(super) fn too_young_until(now: Timestamp, sidecar: SidecarRun<'_>) -> Option<Timestamp> {
    let unseen = || sidecar.run.since.unwrap_or(now) + EXECUTION_UNSEEN;
    let until = match sidecar.run.executed_at {
        Some(at) => at + MIN_SIGNAL_AGE,
        None if unseen() <= now => now,
        None => now + EXECUTION_AGAIN,
    };
    (until > now).then_some(until)
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
///
/// Where the next signal ends the sidecar as well as the request does, the wait for its port is no longer than the
/// signal takes: the sidecar may never open the port, and usher knows no other one.
pub(super) fn may_listen_yet(
    now: Timestamp,
    sidecar: SidecarRun<'_>,
    step: &LadderStep,
    retries: u32,
    next_signal: Option<(&LadderStep, Duration)>,
) -> bool {
    let is_young = now.since(sidecar.run.since.unwrap_or(now)) < sidecar.timings.listen;
    let is_up = sidecar
        .run
        .listens_since
        .is_some_and(|since| now.since(since) >= PORTS_OPEN_WITHIN);
    let is_overdue = next_signal.is_some_and(|(signal, silent)| {
        ends_well(signal) && silent >= signal.takes.max(PORTS_AWAITED)
    });
    let may_open = is_young && !is_up && !is_overdue;
    step.purpose == Purpose::Quit && (may_open || retries < REFUSED_RETRIES)
}

/// Whether a signal ends the sidecar with 0. A process that a script has not started yet does not receive it.
fn ends_well(signal: &LadderStep) -> bool {
    let is_to_first = matches!(signal.step, Step::Signal { process: None, .. });
    is_to_first && signal.code == ExitCode::ZERO
}
