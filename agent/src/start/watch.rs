//! The watch of the runtime's bundles, and what happens when it fails.

use std::{mem, time::Instant};

use usher_client::error_chain::chain;
use usher_core::Event;
use usher_sys::oci::bundle::Bundles;

use super::Starts;

/// The bundles cannot be watched, for example because no inotify instance is free.
#[derive(Debug)]
pub(super) enum FailedWatch {
    /// For this reason, which the engine does not know yet.
    Unreported(String),
    Reported,
}

impl Starts {
    pub(super) fn watch(&mut self) -> Vec<Event> {
        let opened = Bundles::open(&self.bundle_dir).and_then(|mut bundles| {
            let observations = bundles.unstarted()?;
            Ok((bundles, observations))
        });
        let error = match opened {
            Ok((bundles, observations)) => {
                self.bundles = Some(bundles);
                self.failed_watch = None;
                return self.observed(observations);
            }
            Err(error) => error,
        };
        if matches!(self.failed_watch, Some(FailedWatch::Unreported(_))) {
            // Another pod has tried it in the same step of the engine. That is one failure, with one retry.
            return Vec::new();
        }
        tracing::error!(error = %chain(&error), "could not watch the runtime's bundles; starts are not held");
        self.backoff.tried(Instant::now());
        let reason = format!("inotify: {}; the agent retries", chain(&error));
        // Reported later: the engine's current actions may name the starts of further pods.
        self.failed_watch = Some(FailedWatch::Unreported(reason));
        Vec::new()
    }

    /// Opens the watch again after it was lost. It follows no bundle yet, not even those of marked containers.
    pub(super) fn watch_again(&mut self) -> Vec<Event> {
        self.bundles = None;
        self.created.clear();
        self.watch()
    }

    /// Reports a failed watch once. The engine withdraws every start, and reports the reason.
    pub(super) fn report_failed_watch(&mut self) -> Option<Event> {
        let failed = self.failed_watch.as_mut()?;
        let FailedWatch::Unreported(reason) = mem::replace(failed, FailedWatch::Reported) else {
            return None;
        };
        self.metrics.start_hold_supported.set(0);
        Some(Event::StartSupport(Err(reason)))
    }

    /// Tries whether the bundles can be watched again. Then the engine names the starts to hold, which are watched.
    pub(super) fn retry_watch(&mut self) -> Vec<Event> {
        if let Err(error) = Bundles::open(&self.bundle_dir) {
            tracing::debug!(error = %chain(&error), "could not watch the runtime's bundles; trying again");
            self.backoff.tried(Instant::now());
            return Vec::new();
        }
        self.failed_watch = None;
        if self.holder.is_paused() {
            // The end of the pause is reported.
            return Vec::new();
        }
        tracing::info!("the runtime's bundles can be watched again; starts are held");
        self.metrics.start_hold_supported.set(1);
        vec![Event::StartSupport(Ok(()))]
    }
}
