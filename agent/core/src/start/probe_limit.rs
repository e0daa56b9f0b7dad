//! How long a container's start may be held, because the kubelet counts its probes from the start.
//!
//! What the kubelet does ([`prober/worker.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/prober/worker.go)):
//!
//! - Each probe has a ticker of its own that has run since the pod was added, with the probe's period. So the first tick that
//!   counts may come at any moment after `initialDelaySeconds`, and later ones a period apart. (A kubelet that has just been started
//!   waits for up to one period more.)
//! - `initialDelaySeconds` is compared with the time since `startedAt`, of which the kubelet keeps
//!   [whole seconds only](https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/status/status_manager.go#L1312): a probe may come
//!   up to one second too soon.
//! - The container is killed at the failure number `failureThreshold`, all in a row. Failures of an earlier run of the container that did not
//!   reach the threshold are not forgotten; that is not accounted for here.
//! - The liveness probe is suspended until the startup probe has succeeded, where there is one.
//!
//! A probe that connects to the app fails while the app is held. A probe that executes a command in the container may
//! fail or succeed.

use std::time::Duration;

use crate::pod::spec::{Container, KubeletProbe, ProbeKind};

/// How far the kubelet's clock may be ahead of the container's.
const ROUNDED_OFF: Duration = Duration::from_secs(1);

/// The least time for an app to start after its release; periods are never shorter.
const LEAST_LEFT: Duration = Duration::from_secs(1);

/// How long a start may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// From the container's start on; zero where its start cannot be held.
    pub(crate) for_: Duration,
    /// The probe that sets it.
    pub(crate) by: ProbeKind,
    /// The earliest moment, from the container's start on, at which the kubelet may kill it for that probe.
    pub(crate) kills_after: Duration,
}

/// The limit that the probes of a container set for its hold; None where none can kill it.
///
/// One period is reserved for the app's start.
pub(crate) fn of(container: &Container) -> Option<Limit> {
    let probes = container.probes.iter();
    let counting = probes.filter(|probe| counts(probe, &container.probes));
    counting.map(limit).min_by_key(|limit| limit.for_)
}

/// Whether a probe may fail in a container whose app is held.
fn counts(probe: &KubeletProbe, all: &[KubeletProbe]) -> bool {
    let rests =
        |startup: &KubeletProbe| startup.kind == ProbeKind::Startup && !startup.in_container;
    probe.kind == ProbeKind::Startup || !all.iter().any(rests)
}

fn limit(probe: &KubeletProbe) -> Limit {
    let between = probe
        .period
        .saturating_mul(probe.failures.saturating_sub(1));
    let first = probe.initial_delay.saturating_sub(ROUNDED_OFF);
    let kills_after = first.saturating_add(between);
    Limit {
        for_: kills_after.saturating_sub(probe.period.max(LEAST_LEFT)),
        by: probe.kind,
        kills_after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::spec::plain;

    const NET: bool = false;
    const EXEC: bool = true;

    /// A probe of this delay, period and threshold.
    fn probe(kind: ProbeKind, in_container: bool, numbers: (u64, u64, u32)) -> KubeletProbe {
        KubeletProbe {
            kind,
            in_container,
            initial_delay: Duration::from_secs(numbers.0),
            period: Duration::from_secs(numbers.1),
            failures: numbers.2,
        }
    }

    fn liveness(in_container: bool, numbers: (u64, u64, u32)) -> KubeletProbe {
        probe(ProbeKind::Liveness, in_container, numbers)
    }

    fn startup(in_container: bool, numbers: (u64, u64, u32)) -> KubeletProbe {
        probe(ProbeKind::Startup, in_container, numbers)
    }

    fn container(probes: &[KubeletProbe]) -> Container {
        Container {
            probes: probes.to_vec(),
            ..plain::container("app", "")
        }
    }

    /// The limit of a container: `held for, by, killed after`, in seconds.
    fn seconds(probes: &[KubeletProbe]) -> Option<(u64, ProbeKind, u64)> {
        let limit = of(&container(probes))?;
        Some((limit.for_.as_secs(), limit.by, limit.kills_after.as_secs()))
    }

    #[test]
    fn table() {
        use ProbeKind::{Liveness, Startup};
        let defaults = (0, 10, 3);
        for (probes, expected) in [
            (vec![], None),
            // Failures at 0, 10 and 20 s at the earliest; 10 s are the app's.
            (vec![liveness(NET, defaults)], Some((10, Liveness, 20))),
            (vec![liveness(EXEC, defaults)], Some((10, Liveness, 20))),
            (vec![liveness(NET, (5, 10, 3))], Some((14, Liveness, 24))),
            (vec![liveness(NET, (1, 10, 3))], Some((10, Liveness, 20))),
            // Too tight for any hold.
            (vec![liveness(NET, (0, 10, 1))], Some((0, Liveness, 0))),
            (vec![liveness(NET, (0, 1, 2))], Some((0, Liveness, 1))),
            (vec![liveness(NET, (5, 10, 1))], Some((0, Liveness, 4))),
            (vec![liveness(NET, (0, 1, 3))], Some((1, Liveness, 2))),
            (vec![startup(NET, (0, 10, 30))], Some((280, Startup, 290))),
            // The liveness probe rests while the app is held.
            (
                vec![startup(NET, (0, 10, 30)), liveness(NET, (0, 1, 1))],
                Some((280, Startup, 290)),
            ),
            // The startup probe may have succeeded.
            (
                vec![startup(EXEC, (0, 10, 30)), liveness(NET, defaults)],
                Some((10, Liveness, 20)),
            ),
            (
                vec![startup(EXEC, (0, 1, 5)), liveness(NET, defaults)],
                Some((3, Startup, 4)),
            ),
        ] {
            assert_eq!(seconds(&probes), expected, "{probes:?}");
            let turned: Vec<KubeletProbe> = probes.iter().rev().copied().collect();
            assert_eq!(seconds(&turned), expected, "{turned:?}");
        }
    }

    #[test]
    fn huge_numbers_do_not_panic() {
        let max = i32::MAX.unsigned_abs();
        let of_the_api = liveness(NET, (max.into(), max.into(), max));
        assert_eq!(
            seconds(&[of_the_api]).unwrap().2,
            u64::from(max) * u64::from(max) - 1
        );
        let beyond = liveness(NET, (u64::MAX, u64::MAX, u32::MAX));
        assert_eq!(limit(&beyond).kills_after, Duration::MAX);
        let empty = liveness(NET, (0, 0, 0));
        assert_eq!(limit(&empty).for_, Duration::ZERO);
    }
}
