//! What containers leave when they have ended: cgroups and bundles.
//!
//! Both may be in use for a moment longer: by processes that are not reaped yet,
//! or by a process that reads the root.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use usher_tests::synthetic::layout;
use usher_tests::synthetic::wire::Order;

use crate::{container::bundle, container::task};

/// The delay before a failed removal is retried.
const AGAIN: Duration = Duration::from_millis(1);

/// The pending removals, and the time of the next attempt.
#[derive(Default)]
pub(super) struct Removals {
    cgroups: Vec<(Instant, PathBuf)>,
    bundles: Vec<(Instant, Order)>,
}

impl Removals {
    /// Adds the container of this order, which has ended.
    pub(super) fn add(&mut self, due: Instant, order: Order) {
        if let Some(monitor) = &order.monitor {
            drop(std::fs::remove_dir(monitor));
        }
        self.cgroups.push((due, order.cgroup.clone()));
        if order.task.is_some() {
            self.bundles.push((due, order));
        } else {
            bundle::close(&order.bundle);
        }
    }

    /// The time of the next sweep.
    pub(super) fn next(&self) -> Option<Instant> {
        let cgroups = self.cgroups.iter().map(|(due, _)| *due);
        let bundles = self.bundles.iter().map(|(due, _)| *due);
        cgroups.chain(bundles).min()
    }

    /// Removes what is no longer in use.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.bundles.retain_mut(|(due, order)| {
            let Some(task) = order.task.as_ref().filter(|_| *due <= now) else {
                return true;
            };
            *due = now + AGAIN;
            !task::remove(order, task)
        });
        self.cgroups.retain_mut(|(due, path)| {
            if *due > now {
                return true;
            }
            // With a subdirectory of its own, rmdir returns the same error.
            layout::remove_tree(path);
            let busy = path.exists();
            *due = now + AGAIN;
            busy
        });
    }

    /// Removes all bundles, including those of these orders, even if they are in use.
    pub(super) fn clear(self, orders: impl Iterator<Item = Order>) {
        let left = self.bundles.into_iter().map(|(_, order)| order);
        for order in orders.chain(left) {
            if let Some(task) = &order.task {
                task::remove_at_once(&order, task);
            }
        }
    }
}
