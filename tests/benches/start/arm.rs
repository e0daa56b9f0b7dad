//! The ways to keep an app from running before its sidecar is ready.

use usher_cluster::{
    crowd::Like,
    mesh::{Proxy, Variant},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Its first execve is held.
    Usher,
    /// `holdApplicationUntilProxyStarts`: the kubelet waits for the proxy's hook before it starts the app.
    Istio,
    /// A loop that polls ten times a second wraps its command.
    Often,
    /// The same, once a second.
    Seldom,
}

impl Arm {
    pub(crate) const ALL: [Self; 4] = [Self::Usher, Self::Istio, Self::Often, Self::Seldom];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Usher => "usher",
            Self::Istio => "holdApplicationUntilProxyStarts",
            Self::Often => "wrapper, asks every 100 ms",
            Self::Seldom => "wrapper, asks every second",
        }
    }

    const fn wrapper(self) -> Option<&'static str> {
        match self {
            Self::Usher | Self::Istio => None,
            Self::Often => Some("100ms"),
            Self::Seldom => Some("1s"),
        }
    }

    fn annotations(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Usher => vec![
                ("usher.dev/hold", "start"),
                ("usher.dev/hold-deadline", "10m"),
            ],
            _ => vec![("usher.dev/hold", "false")],
        }
    }

    /// Pods with a sidecar that listens on command and has nothing of Istio.
    pub(crate) fn crowd(self, apps: usize) -> Option<Like> {
        (self != Self::Istio).then(|| Like {
            apps,
            annotations: self.annotations(),
            wrapper: self.wrapper(),
        })
    }

    /// A Job in the mesh. The proxy is the last container, as Istio's injector places it, unless Istio should hold the app.
    pub(crate) fn variant(self) -> Variant {
        let proxy = match self {
            Self::Istio => Proxy::Awaited,
            Self::Usher | Self::Often | Self::Seldom => Proxy::Last,
        };
        let mut annotations = self.annotations();
        annotations.push(("usher.dev/quit", "false"));
        Variant {
            annotations,
            wrapper: self.wrapper(),
            ..Variant::new(proxy)
        }
    }
}
