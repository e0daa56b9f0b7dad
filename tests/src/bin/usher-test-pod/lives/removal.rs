//! What containers leave when they have ended: cgroups and bundles.
//!
//! Both may be in use for a moment longer: by processes that are not reaped yet,
//! or by a process that reads the root.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use usher_tests::synthetic::layout;
use usher_tests::synthetic::wire::Order;

use crate::{bundle, task};

/// What could not be removed is tried again after this.
const AGAIN: Duration = Duration::from_millis(1);

/// What is to be removed, and when that is tried next.
#[derive(Default)]
pub(super) struct Removals {
    cgroups: Vec<(Instant, PathBuf)>,
    bundles: Vec<(Instant, Order)>,
}

impl Removals {
    /// The container of this order has ended.
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

    /// When to sweep next.
    pub(super) fn next(&self) -> Option<Instant> {
        let cgroups = self.cgroups.iter().map(|(due, _)| *due);
        let bundles = self.bundles.iter().map(|(due, _)| *due);
        cgroups.chain(bundles).min()
    }

    /// Removes what can be removed now.
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
            // With a directory of its own below it, it is the same to rmdir.
            layout::remove_tree(path);
            let busy = path.exists();
            *due = now + AGAIN;
            busy
        });
    }

    /// Removes all bundles, those of these orders as well, at any price.
    pub(super) fn clear(self, orders: impl Iterator<Item = Order>) {
        let left = self.bundles.into_iter().map(|(_, order)| order);
        for order in orders.chain(left) {
            if let Some(task) = &order.task {
                task::remove_at_once(&order, task);
            }
        }
    }
}
