//! The start of a container, step by step, and programs that run in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{PAUSE, Pod};
use crate::synthetic::spec::ContainerSpec;
use crate::synthetic::wire::{self, Order, Pace, Program, Shape, Task};

impl Pod {
    /// Waits until the runtime has started a container, whether or not its
    /// program has run. Returns its init process.
    pub fn started(&self, container: &str) -> i32 {
        self.wait_attempt(container, "a started container", |attempt| {
            attempt.pid.filter(|_| attempt.started)
        })
    }

    /// Waits for the first instruction of a container's program, and returns its
    /// nanosecond of `CLOCK_MONOTONIC`.
    pub fn first_instruction(&self, container: &str) -> u64 {
        self.wait_attempt(container, "the first instruction", |attempt| {
            attempt.running
        })
    }

    /// Whether the program of a container's latest run has run.
    pub fn has_run(&self, container: &str) -> bool {
        self.latest(container).running.is_some()
    }

    /// Runs a program in a started container, as `kubectl exec`
    /// and exec probes do. Its events have this name, which no container
    /// has. Does not wait.
    pub fn exec(&self, container: &str, name: &str, program: Program) {
        let spec = self.container(container);
        let host = self.latest(container);
        let order = self.order(program, wire::Pids::Own);
        let order = Order {
            cgroup: self
                .cgroup
                .join(self.driver.container(self.runtime, &host.id)),
            bundle: self.bundle(&host.id),
            user: spec.user,
            ..order
        };
        self.enter_attempt(name, &order);
        self.command(&wire::Command::Exec {
            container: host.id,
            order: Box::new(order),
        });
    }

    /// The runtime's directory for this container, even if it does not exist.
    pub fn bundle(&self, id: &str) -> PathBuf {
        let places = self.bundles.as_ref();
        places.map_or_else(
            || self.scratch.join("bundles").join(id),
            |places| places.tasks.join(id),
        )
    }

    /// A bundle from the view of its shim, with its mounts.
    pub fn bundle_of(&self, container: &str) -> PathBuf {
        let inside = PathBuf::from(format!("/proc/{}/root", self.shim.id()));
        let bundle = self.bundle(&self.id(container));
        inside.join(bundle.strip_prefix("/").unwrap_or(&bundle))
    }

    /// The directory that all roots are made from.
    pub(super) fn root(&self) -> PathBuf {
        let places = self.bundles.as_ref();
        places.map_or_else(|| self.scratch.join("root"), |places| places.lower.clone())
    }

    pub(super) fn usual_pace(&self) -> Pace {
        if self.bundles.is_some() {
            Pace::CONTAINERD
        } else {
            Pace::default()
        }
    }

    /// What the runtime exposes of a container; of the sandbox without a spec.
    pub(super) fn task(&self, id: &str, spec: Option<&ContainerSpec>) -> Option<Task> {
        let places = self.bundles.as_ref()?;
        Some(Task {
            annotations: self.annotations(id, spec),
            snapshot: places.snapshots.join(id),
            volume: places.volume.clone(),
            entry: spec.map(|spec| spec.entry).unwrap_or_default(),
            shape: spec.map_or_else(Shape::default, |spec| spec.shape),
        })
    }

    /// The annotations that containerd's CRI plugin adds
    /// (containerd `pkg/cri/annotations/annotations.go`).
    fn annotations(&self, id: &str, spec: Option<&ContainerSpec>) -> BTreeMap<String, String> {
        let sandbox = spec.map_or_else(|| id.to_owned(), |_| self.id(PAUSE));
        let mut pairs = vec![
            ("container-type", "sandbox".to_owned()),
            ("sandbox-id", sandbox),
            ("sandbox-name", self.spec.name.clone()),
            ("sandbox-namespace", self.spec.namespace.clone()),
            ("sandbox-uid", self.uid.clone()),
        ];
        if let Some(spec) = spec {
            pairs.push(("container-type", "container".to_owned()));
            pairs.push(("container-name", spec.name.clone()));
            pairs.push(("image-name", spec.image.clone()));
        }
        let prefixed = |(key, value)| (format!("io.kubernetes.cri.{key}"), value);
        pairs.into_iter().map(prefixed).collect()
    }
}
