//! A pool of values that take time or memory to create.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Unused values. The last one that was put back is taken first, because its memory is most likely in the processor's
/// caches.
pub struct Pool<T> {
    unused: Mutex<Vec<T>>,
    limit: usize,
}

impl<T> Pool<T> {
    /// An empty pool that keeps at most `limit` unused values.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            unused: Mutex::new(Vec::new()),
            limit,
        }
    }

    /// Takes an unused value. None if there is none.
    pub fn take(&self) -> Option<T> {
        self.unused().pop()
    }

    /// Puts back a value, or drops it above the limit.
    pub fn put_back(&self, value: T) {
        let mut unused = self.unused();
        if unused.len() < self.limit {
            unused.push(value);
        }
    }

    fn unused(&self) -> MutexGuard<'_, Vec<T>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_one_is_taken_first_and_the_limit_is_kept() {
        let pool = Pool::new(2);
        assert_eq!(pool.take(), None);
        for value in [1, 2, 3] {
            pool.put_back(value);
        }
        assert_eq!(
            [pool.take(), pool.take(), pool.take()],
            [Some(2), Some(1), None]
        );
    }
}
