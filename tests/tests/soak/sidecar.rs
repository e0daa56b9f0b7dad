//! The sidecars of a soak: which stand-in each is, and how it reacts to its termination.

use std::time::Duration;

use usher_tests::synthetic::catalog::{StandIn, cloud_sql, dapr, istio, linkerd, mesh};
use usher_tests::synthetic::wire::{Effect, Listen, Manner, Program, Reaction};
use usher_tests::synthetic::{ContainerSpec, spec};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sidecar {
    Istio,
    /// Istio 1.20, which drains.
    IstioOld,
    /// Istio 1.2, which only SIGTERM ends.
    IstioAncient,
    /// It exits without a response.
    IstioMute,
    /// It has no ports; also in the node's network namespace.
    IstioPortless,
    /// Its port accepts connections and never responds.
    IstioHanging,
    /// Neither requests nor SIGTERM end it.
    IstioDeaf,
    /// It exits with 1, and is restarted for that.
    IstioReturning,
    /// A mesh's proxy that is ready this number of milliseconds after its start, or never.
    Mesh(Option<u64>),
    Linkerd,
    LinkerdClosed,
    CloudSql,
    /// The Cloud SQL proxy that only SIGTERM ends, with 143.
    CloudSqlFailing,
    Dapr,
    /// Dapr that requires a token.
    DaprToken,
}

/// The outcome of a sidecar after all permitted steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Temper {
    /// It exits.
    Leaves,
    /// It exits with a code that fails a successful pod.
    FailsPod,
    /// It runs on, or restarts.
    Stays,
}

impl Sidecar {
    pub(crate) const fn temper(self) -> Temper {
        match self {
            Self::IstioDeaf | Self::IstioReturning => Temper::Stays,
            Self::CloudSqlFailing => Temper::FailsPod,
            _ => Temper::Leaves,
        }
    }

    /// It is the mesh, which exits last.
    pub(crate) const fn is_mesh(self) -> bool {
        !matches!(
            self,
            Self::CloudSql | Self::CloudSqlFailing | Self::Dapr | Self::DaprToken
        )
    }

    /// The container, and the annotations that its injector adds to the pod.
    pub(crate) fn stand_in(self) -> StandIn {
        match self {
            Self::Istio => istio::v1_26(),
            Self::IstioOld => istio::v1_20(),
            Self::IstioAncient => istio::v1_2(),
            Self::IstioMute => istio::v1_26_without_a_reply(),
            Self::IstioPortless => istio::v1_26_without_ports(),
            Self::IstioHanging => ContainerSpec::istio(Manner::Hang).into(),
            Self::IstioDeaf => ContainerSpec::istio(Manner::IgnoreQuit)
                .deaf_to_term()
                .into(),
            Self::IstioReturning => returning().into(),
            Self::Mesh(ready) => mesh(ready).into(),
            Self::Linkerd => linkerd::enabled(),
            Self::LinkerdClosed => linkerd::disabled(),
            Self::CloudSql => cloud_sql::v2_with_the_endpoint(),
            Self::CloudSqlFailing => cloud_sql::v2(),
            Self::Dapr => dapr::open(),
            Self::DaprToken => dapr::with_a_token(),
        }
    }
}

fn mesh(ready: Option<u64>) -> ContainerSpec {
    let listen = ready.map_or(Listen::OnCommand, |after| {
        Listen::After(Duration::from_millis(after))
    });
    mesh::proxy(listen)
}

/// It always exits with 1.
fn returning() -> ContainerSpec {
    let mut container = ContainerSpec::istio(Manner::Quit);
    if let Program::Sidecar(sidecar) = &mut container.program {
        for route in sidecar.listeners.iter_mut().flat_map(|at| &mut at.routes) {
            route.effect = Effect::Quit {
                after: Duration::ZERO,
                code: 1,
            };
        }
        for (_, reaction) in &mut sidecar.signals {
            *reaction = Reaction::End {
                after: Duration::ZERO,
                code: 1,
            };
        }
    }
    assert_eq!(container.name, spec::ISTIO_PROXY);
    container
}
