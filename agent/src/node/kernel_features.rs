//! What the node's kernel can do of what a hold needs, found out at the start.

use std::{error::Error, path::Path};

use usher_client::error_chain::chain;
use usher_core::hold::Features;
use usher_sys::{
    net::nft::{self, probe},
    oci::{bundle, fanotify::Group},
};

use crate::telemetry::metrics::Metrics;

/// Tries everything in a network namespace of its own, says what does not
/// work, and goes on without it.
pub(crate) fn features(bundle_dir: &Path, metrics: &Metrics) -> Features {
    let start = starts(bundle_dir);
    let features = match probe() {
        Ok(found) => of(&found, start),
        Err(error) => Features {
            hold: Err(lacks("a network namespace to try in", &error)),
            dns: None,
            start,
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
    match &features.start {
        Ok(()) => tracing::info!("the starts of apps can be held"),
        Err(lacks) => tracing::info!(
            lacks,
            "the starts of apps cannot be held; where that is asked for their connections wait"
        ),
    }
    metrics.hold_supported.set(features.hold.is_ok().into());
    metrics.start_supported.set(features.start.is_ok().into());
    features
}

/// Whether the starts of apps can be held.
fn starts(bundle_dir: &Path) -> Result<(), String> {
    if bundle_dir.as_os_str().is_empty() {
        return Err("no --bundle-dir".to_owned());
    }
    bundle::visible(bundle_dir)?;
    match Group::open() {
        Ok(_group) => Ok(()),
        Err(error) => Err(lacks("fanotify", &error)),
    }
}

fn of(found: &nft::Features, start: Result<(), String>) -> Features {
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
        start,
    }
}

fn lacks(what: &str, error: &(dyn Error + 'static)) -> String {
    format!("{what}: {}", chain(error))
}
