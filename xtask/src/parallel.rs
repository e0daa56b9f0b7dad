//! The same work for many things, on several threads.

use std::{
    iter,
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread::{self, ScopedJoinHandle},
};

/// Calls `work` for each item, `jobs` at once. The results are in any order.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let waiting = Mutex::new(items.iter());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next()
    };
    let worker = || iter::from_fn(next).map(&work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        let done = workers.into_iter().map(ScopedJoinHandle::join);
        done.flat_map(|results| results.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}
