//! The kubelet's probes of a container.

use std::time::Duration;

use serde_json::{Value, json};

/// A probe in a pod's spec. The kubelet's stand-in only serves it.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Which one.
    pub kind: ProbeKind,
    /// An exec probe instead of a request.
    pub in_container: bool,
    /// In whole seconds.
    pub initial_delay: Duration,
    /// `periodSeconds`, in whole seconds.
    pub period: Duration,
    /// `failureThreshold`
    pub failures: u32,
}

/// The probes after which the kubelet kills a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    /// `livenessProbe`
    Liveness,
    /// `startupProbe`
    Startup,
}

impl Probe {
    /// An HTTP probe that fails for good after this number of failures, a second
    /// apart.
    pub const fn http(kind: ProbeKind, failures: u32) -> Self {
        Self {
            kind,
            in_container: false,
            initial_delay: Duration::ZERO,
            period: Duration::from_secs(1),
            failures,
        }
    }

    /// Its key and value in a container's spec.
    pub(crate) fn json(&self) -> (&'static str, Value) {
        let key = match self.kind {
            ProbeKind::Liveness => "livenessProbe",
            ProbeKind::Startup => "startupProbe",
        };
        let mut probe = json!({
            "timeoutSeconds": 1,
            "initialDelaySeconds": self.initial_delay.as_secs(),
            "periodSeconds": self.period.as_secs(),
            "successThreshold": 1,
            "failureThreshold": self.failures,
        });
        if self.in_container {
            probe["exec"] = json!({"command": ["/pod", "alive"]});
        } else {
            probe["httpGet"] = json!({"path": "/healthz", "port": 8080, "scheme": "HTTP"});
        }
        (key, probe)
    }
}
