//! CPU and memory that a container or a pod requests.

use std::ops::Add;

/// Requested resources; 0 where none are requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
}

/// The value of each resource, where it is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Explicit {
    pub(crate) cpu_millis: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
}

/// An init container, as the scheduler counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) requests: Requests,
    /// It runs as long as the regular containers.
    pub(crate) is_native_sidecar: bool,
}

impl Requests {
    /// What the scheduler reserves for a pod
    /// ([sidecar containers](https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers)):
    /// the requests of the pod itself, else the larger of the sum of its containers and of the needs of an init container.
    pub(crate) fn of_pod(
        regular: impl Iterator<Item = Self>,
        init: impl Iterator<Item = Init>,
        explicit: Explicit,
        overhead: Self,
    ) -> Self {
        let mut native = Self::default();
        let mut largest = Self::default();
        for container in init {
            let needs = native + container.requests;
            largest = largest.max(needs);
            if container.is_native_sidecar {
                native = needs;
            }
        }
        let sum = regular.fold(native, Add::add).max(largest);
        let own = Self {
            cpu_millis: explicit.cpu_millis.unwrap_or(sum.cpu_millis),
            memory_bytes: explicit.memory_bytes.unwrap_or(sum.memory_bytes),
        };
        own + overhead
    }

    fn max(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

impl Add for Requests {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }
}

impl From<Explicit> for Requests {
    fn from(explicit: Explicit) -> Self {
        Self {
            cpu_millis: explicit.cpu_millis.unwrap_or_default(),
            memory_bytes: explicit.memory_bytes.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn requests(cpu_millis: u64, memory_bytes: u64) -> Requests {
        Requests {
            cpu_millis,
            memory_bytes,
        }
    }

    #[test]
    fn a_pod_requests_what_the_scheduler_reserves() {
        let init = |cpu, memory| Init {
            requests: requests(cpu, memory),
            is_native_sidecar: false,
        };
        let native = |cpu, memory| Init {
            is_native_sidecar: true,
            ..init(cpu, memory)
        };
        let none = Explicit::default();
        let cpu_only = Explicit {
            cpu_millis: Some(50),
            memory_bytes: None,
        };
        let (a, b) = (requests(100, 10), requests(200, 20));
        for (what, regular, inits, explicit, overhead, expected) in [
            ("nothing", vec![], vec![], none, requests(0, 0), (0, 0)),
            ("a sum", vec![a, b], vec![], none, requests(0, 0), (300, 30)),
            ("overhead", vec![a], vec![], none, requests(5, 6), (105, 16)),
            (
                "an init container with more memory",
                vec![a],
                vec![init(50, 500)],
                none,
                requests(0, 0),
                (100, 500),
            ),
            (
                "a native sidecar before an init container",
                vec![a],
                vec![native(10, 1), init(150, 5)],
                none,
                requests(0, 0),
                (160, 11),
            ),
            (
                "of the pod itself",
                vec![a, b],
                vec![],
                cpu_only,
                requests(1, 1),
                (51, 31),
            ),
        ] {
            let of_pod =
                Requests::of_pod(regular.into_iter(), inits.into_iter(), explicit, overhead);
            assert_eq!(of_pod, requests(expected.0, expected.1), "{what}");
        }
    }
}
