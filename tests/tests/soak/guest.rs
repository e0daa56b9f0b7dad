//! The sidecars of a soak: which stand-in each is, and how it reacts to its termination.

use std::time::Duration;

use usher_tests::synthetic::catalog::{StandIn, cloud_sql, dapr, istio, linkerd, mesh};
use usher_tests::synthetic::wire::{Effect, Listen, Manner, Program, Reaction};
use usher_tests::synthetic::{ContainerSpec, spec};

/// A kind of sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guest {
    /// Istio 1.26.
    Istio,
    /// Istio 1.20, which drains.
    IstioOld,
    /// Istio 1.2, which only SIGTERM ends.
    IstioAncient,
    /// It ends and does not say so.
    IstioMute,
    /// It has no ports: in the node's network namespace, too.
    IstioPortless,
    /// Its port takes connections and never answers.
    IstioHanging,
    /// Neither requests nor SIGTERM end it.
    IstioDeaf,
    /// It ends with 1, and is started again for that.
    IstioReturning,
    /// A mesh's proxy that is ready so many milliseconds after its start; never where there is none.
    Mesh(Option<u64>),
    /// Linkerd with its endpoint.
    Linkerd,
    /// Linkerd without it.
    LinkerdClosed,
    /// The Cloud SQL proxy with its endpoint.
    CloudSql,
    /// The Cloud SQL proxy that only SIGTERM ends, with 143.
    CloudSqlSpoiling,
    /// Dapr.
    Dapr,
    /// Dapr that asks for a token.
    DaprToken,
}

/// What becomes of a guest that is asked as often as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Temper {
    /// It ends.
    Leaves,
    /// It ends with a code that spoils a good pod.
    Spoils,
    /// It stays, or comes back.
    Stays,
}

impl Guest {
    pub(crate) const fn temper(self) -> Temper {
        match self {
            Self::IstioDeaf | Self::IstioReturning => Temper::Stays,
            Self::CloudSqlSpoiling => Temper::Spoils,
            _ => Temper::Leaves,
        }
    }

    /// It is the mesh, which goes last.
    pub(crate) const fn is_mesh(self) -> bool {
        !matches!(
            self,
            Self::CloudSql | Self::CloudSqlSpoiling | Self::Dapr | Self::DaprToken
        )
    }

    /// The container, and what its injector writes on the pod.
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
            Self::CloudSqlSpoiling => cloud_sql::v2(),
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

/// Whatever ends it, it ends with 1.
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
