//! What the kubelet asks a container, and what decides when it may be started.

use std::time::Duration;

use serde_json::{Value, json};

use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{ConfigText, Entry, Root};

/// A probe as a pod's spec has it. The kubelet's stand-in only shows it.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Which one.
    pub kind: ProbeKind,
    /// It is a program in the container, instead of a request to it.
    pub in_container: bool,
    /// `initialDelaySeconds`, in whole seconds.
    pub initial_delay: Duration,
    /// `periodSeconds`, in whole seconds.
    pub period: Duration,
    /// `failureThreshold`
    pub failures: u32,
}

/// The probes for which the kubelet ends a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    /// `livenessProbe`
    Liveness,
    /// `startupProbe`
    Startup,
}

impl Probe {
    /// An HTTP probe that fails for good when so many in a row failed, a second
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

    /// Its key in a container's spec, and what is there.
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

impl ContainerSpec {
    /// With one more probe.
    #[must_use]
    pub fn probe(mut self, probe: Probe) -> Self {
        self.probes.push(probe);
        self
    }

    /// Its first program lies there.
    #[must_use]
    pub const fn entry(mut self, entry: Entry) -> Self {
        self.entry = entry;
        self
    }

    /// Its `config.json` is like this.
    #[must_use]
    pub const fn config(mut self, config: ConfigText) -> Self {
        self.shape.config = config;
        self
    }

    /// This is mounted as its root.
    #[must_use]
    pub const fn root(mut self, root: Root) -> Self {
        self.shape.root = root;
        self
    }

    /// Its bundle is a symbolic link.
    #[must_use]
    pub const fn linked(mut self) -> Self {
        self.shape.linked = true;
        self
    }
}
