//! An outage of istiod for several Jobs at once.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::Result;

use super::{ControlPlane, LIMIT, Variant, bind};
use crate::{Cluster, node::process::wait_until};

/// An outage that starts when the pods of all Jobs exist, because none can be created during it, and before any is bound.
#[derive(Debug)]
pub(super) struct Outage<'cluster> {
    istiod: ControlPlane<'cluster>,
    delay: Duration,
    jobs: usize,
    pods: AtomicUsize,
    began: AtomicBool,
}

impl<'cluster> Outage<'cluster> {
    /// The longest outage that any of them requests; None if none does.
    pub(super) fn wanted(cluster: &'cluster Cluster, jobs: &[Variant]) -> Result<Option<Self>> {
        let Some(delay) = jobs.iter().filter_map(|job| job.delay).max() else {
            return Ok(None);
        };
        Ok(Some(Self {
            istiod: ControlPlane::find(cluster)?,
            delay,
            jobs: jobs.len(),
            pods: AtomicUsize::new(0),
            began: AtomicBool::new(false),
        }))
    }

    /// Stops istiod and resumes it, not before `enough` returns true; returns the time.
    pub(super) fn happen(&self, enough: &dyn Fn() -> bool) -> Result<SystemTime> {
        wait_until(LIMIT, "the pods of all Jobs", || {
            Ok(self.pods.load(Ordering::Relaxed) >= self.jobs)
        })?;
        let paused = self.istiod.pause()?;
        self.began.store(true, Ordering::Relaxed);
        // This is the requested duration, not a wait for a condition.
        thread::sleep(self.delay);
        wait_until(LIMIT, "what istiod is to be away for", || Ok(enough()))?;
        let now = SystemTime::now();
        paused.resume().map(|()| now)
    }

    /// Called when a Job's pod exists: waits until istiod is stopped, and binds the pod.
    pub(super) fn join(&self, cluster: &Cluster, pod: &str) -> Result<()> {
        self.pods.fetch_add(1, Ordering::Relaxed);
        wait_until(LIMIT, "istiod to be away", || {
            Ok(self.began.load(Ordering::Relaxed))
        })?;
        bind(cluster, pod)
    }
}
