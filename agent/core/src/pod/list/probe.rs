//! Liveness and startup probes of a container's spec.

use std::time::Duration;

use serde::{Deserialize, de::IgnoredAny};

use crate::pod::spec::{KubeletProbe, ProbeKind};

/// The defaults where a field of a probe is absent or 0
/// ([`SetDefaults_Probe`](https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/v1/defaults.go#L233)).
const PERIOD: u32 = 10;
const FAILURES: u32 = 3;

/// The largest value of these fields in the API, where they are `int32`.
const LARGEST: u32 = i32::MAX.unsigned_abs();

/// Numbers of any size are accepted: a pod is not skipped for its probes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawProbe {
    exec: Option<IgnoredAny>,
    initial_delay_seconds: Option<f64>,
    period_seconds: Option<f64>,
    failure_threshold: Option<f64>,
}

impl RawProbe {
    pub(super) fn of(self, kind: ProbeKind) -> KubeletProbe {
        let seconds = |number: u32| Duration::from_secs(number.into());
        KubeletProbe {
            kind,
            in_container: self.exec.is_some(),
            initial_delay: seconds(clamped(self.initial_delay_seconds, 0, 0)),
            period: seconds(clamped(self.period_seconds, PERIOD, 1)),
            failures: clamped(self.failure_threshold, FAILURES, 1),
        }
    }
}

/// A negative value, which the API rejects, counts as the least one.
fn clamped(value: Option<f64>, default: u32, least: u32) -> u32 {
    match value {
        None | Some(0.0) => default,
        // A cast of what is too large, or too small, gives the end of the range.
        Some(value) => (value as u32).clamp(least, LARGEST),
    }
}
