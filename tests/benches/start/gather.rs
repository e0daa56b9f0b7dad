//! Pods of a crowd, in the namespace of this run.

use usher_cluster::crowd::{Crowd, Like};

use crate::place::Place;

impl Place {
    /// Pods that run, or that are held.
    pub(crate) fn crowd(&self, name: &str, size: usize, like: &Like) -> Crowd<'_> {
        let crowd = Crowd::make(&self.cluster, &self.namespace, name, size, like).unwrap();
        crowd.started().unwrap();
        crowd
    }
}
