//! Probes at the start which kernel features for holds are available.
//!
//! It runs on a separate thread: when the kernel removes the probe's table, it waits until every processor has left
//! the kernel (`synchronize_rcu` in
//! [`nf_tables_abort`](https://github.com/torvalds/linux/blob/v6.12/net/netfilter/nf_tables_api.c)). A pod with costly
//! packet filter rules can delay that for seconds.

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use tokio::sync::oneshot;

use usher_client::error_chain::chain;
use usher_core::hold::{Features, ruleset::Queue};
use usher_sys::{
    net::nft,
    oci::{
        bundle,
        fanotify::{self, Group},
    },
};

use crate::telemetry::metrics::Metrics;

/// Probes each feature in a separate network namespace, and reports the missing ones.
pub(crate) fn probe(
    bundle_dir: PathBuf,
    metrics: Arc<Metrics>,
) -> io::Result<oneshot::Receiver<Features>> {
    let (found, features) = oneshot::channel();
    // Fails only during the agent's shutdown.
    let probe = move || drop(found.send(features_of_kernel(&bundle_dir, &metrics)));
    thread::Builder::new()
        .name("kernel".to_owned())
        .spawn(probe)?;
    Ok(features)
}

fn features_of_kernel(bundle_dir: &Path, metrics: &Metrics) -> Features {
    let start = probe_start_hold(bundle_dir);
    let features = match nft::probe() {
        Ok(found) => from_probe(&found, start),
        Err(error) => Features {
            hold: Err(missing_feature("a network namespace to try in", &error)),
            dns: None,
            start,
        },
    };
    log(&features);
    metrics.hold_supported.set(features.hold.is_ok().into());
    metrics
        .start_hold_supported
        .set(features.start.is_ok().into());
    features
}

fn log(features: &Features) {
    let dns = features.dns.map_or("none", |queue| match queue {
        Queue::Native => "native",
        Queue::Compat => "compat",
    });
    match &features.hold {
        Ok(()) => tracing::info!(dns, "the kernel can hold connections"),
        Err(missing) => tracing::warn!(
            missing,
            "the kernel cannot hold connections; pods start unheld"
        ),
    }
    if features.hold.is_ok() && features.dns.is_none() {
        tracing::warn!("the kernel has neither nft queue nor NFQUEUE; DNS queries are not held");
    }
    match &features.start {
        Ok(()) => tracing::info!("the kernel can hold the starts of apps"),
        Err(missing) => tracing::info!(
            missing,
            "the kernel cannot hold the starts of apps; where that is enabled, the agent holds their connections"
        ),
    }
}

fn probe_start_hold(bundle_dir: &Path) -> Result<(), String> {
    if bundle_dir.as_os_str().is_empty() {
        return Err("no --bundle-dir".to_owned());
    }
    bundle::visible(bundle_dir)?;
    match Group::open() {
        Ok(_group) => Ok(()),
        // Groups become free again, and the agent retries the start of the holder process, which needs one.
        Err(error @ fanotify::Error::Groups(_)) => {
            tracing::warn!(error = %chain(&error), "could not try whether the kernel can hold the starts of apps");
            Ok(())
        }
        Err(error) => Err(missing_feature("fanotify", &error)),
    }
}

fn from_probe(found: &nft::Features, start: Result<(), String>) -> Features {
    let table = found
        .table
        .as_ref()
        .map_err(|error| missing_feature("nf_tables", error));
    let log = found
        .log
        .as_ref()
        .map_err(|error| missing_feature("nft log", error));
    let sockets = match &found.sock_diag {
        Ok(true) => Ok(()),
        Ok(false) => Err("sock_diag: the module tcp_diag".to_owned()),
        Err(error) => Err(missing_feature("sock_diag", error)),
    };
    Features {
        hold: table.and(log).copied().and(sockets),
        dns: found.queue(),
        start,
    }
}

fn missing_feature(name: &str, error: &(dyn Error + 'static)) -> String {
    format!("{name}: {}", chain(error))
}
