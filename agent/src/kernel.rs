//! What the node's kernel can do of what a hold needs, found out at the start.

use std::error::Error;

use usher_core::hold::Features;
use usher_sys::nft::{self, probe};

use crate::{metrics::Metrics, telemetry::chain};

/// Tries everything in a network namespace of its own, says what does not
/// work, and goes on without it.
pub(crate) fn features(metrics: &Metrics) -> Features {
    let features = match probe() {
        Ok(found) => of(&found),
        Err(error) => Features {
            hold: Err(lacks("a network namespace to try in", &error)),
            dns: None,
        },
    };
    match &features.hold {
        Ok(()) => tracing::info!(dns = ?features.dns, "the kernel can hold connections"),
        Err(lacks) => tracing::warn!(
            lacks,
            "the kernel cannot hold connections; pods start unheld"
        ),
    }
    if features.hold.is_ok() && features.dns.is_none() {
        tracing::warn!("the kernel has neither nft queue nor NFQUEUE; DNS queries are not held");
    }
    metrics.hold_supported.set(features.hold.is_ok().into());
    features
}

fn of(found: &nft::Features) -> Features {
    let table = found
        .table
        .as_ref()
        .map_err(|error| lacks("nf_tables", error));
    let log = found.log.as_ref().map_err(|error| lacks("nft log", error));
    let sockets = match &found.sock_diag {
        Ok(true) => Ok(()),
        Ok(false) => Err("sock_diag: the module tcp_diag".to_owned()),
        Err(error) => Err(lacks("sock_diag", error)),
    };
    Features {
        hold: table.and(log).copied().and(sockets),
        dns: found.queue(),
    }
}

fn lacks(what: &str, error: &(dyn Error + 'static)) -> String {
    format!("{what}: {}", chain(error))
}
