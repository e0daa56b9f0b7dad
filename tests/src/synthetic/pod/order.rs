//! The orders for a pod's containers, in the kubelet's order.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::id::new_container_id;
use super::{PAUSE, Pod};
use crate::synthetic::ledger::Attempt;
use crate::synthetic::spec::{ContainerSpec, RestartPolicy};
use crate::synthetic::wire::{self, Order, Pids, Program};

/// The kubelet detects the exit of an init container with its next relist,
/// which runs once a second.
const RELIST: Duration = Duration::from_millis(100);

impl Pod {
    /// Runs the remaining init containers one after the other, as the
    /// kubelet does: one that fails is restarted unless the policy is
    /// Never. Then creates the other containers.
    pub fn initialize(&self) {
        if self.initialized.swap(true, Ordering::Relaxed) {
            return;
        }
        for container in &self.spec.init_containers {
            self.create(container);
            while self.ended(&container.name).code() != 0 {
                if self.spec.restart_policy == RestartPolicy::Never {
                    return;
                }
                std::thread::sleep(RELIST);
                self.create(container);
            }
            std::thread::sleep(RELIST);
        }
        for container in self.spec.containers.iter().filter(|spec| spec.at_once) {
            self.create(container);
        }
    }

    pub(super) fn create(&self, spec: &ContainerSpec) {
        let order = self.order_for(spec);
        self.place(&spec.name, order);
    }

    pub(super) fn pause(&self) {
        let pids = if self.spec.shares.host_pids {
            Pids::Host
        } else {
            Pids::Own
        };
        let order = self.order(Program::Pause, pids);
        let task = self.task(&order.id, None);
        self.place(PAUSE, Order { task, ..order });
    }

    pub(super) fn order_for(&self, spec: &ContainerSpec) -> Order {
        let pids = match self.spec.shares {
            shares if shares.host_pids => Pids::Host,
            shares if shares.processes => Pids::Of(self.pid(PAUSE)),
            _ => Pids::Own,
        };
        let env = spec.env.iter();
        let order = self.order(spec.program.clone(), pids);
        Order {
            task: self.task(&order.id, Some(spec)),
            termination_log: Some(self.termination_log(&spec.name)),
            files: self.files(),
            env: env
                .map(|variable| (variable.name.clone(), variable.value.clone()))
                .collect(),
            user: spec.user,
            pace: spec.pace.unwrap_or_else(|| self.usual_pace()),
            ..order
        }
    }

    pub(super) fn order(&self, program: Program, pids: Pids) -> Order {
        let id = new_container_id();
        let subgroup = self.driver.subgroup(self.runtime);
        Order {
            cgroup: self.cgroup.join(self.driver.container(self.runtime, &id)),
            subgroup: subgroup.map(str::to_owned),
            root: self.root(),
            bundle: self.bundle(&id),
            task: None,
            termination_log: None,
            files: Vec::new(),
            pids,
            pid: None,
            user: None,
            users: None,
            enters_network_of: None,
            env: Vec::new(),
            pace: self.usual_pace(),
            program,
            monitor: self
                .driver
                .monitor(self.runtime, &id)
                .map(|name| self.cgroup.join(name)),
            id,
        }
    }

    pub(super) fn place(&self, name: &str, order: Order) {
        self.enter_attempt(name, &order);
        self.command(&wire::Command::Create(Box::new(order)));
    }

    /// Records another run of this container.
    pub(super) fn enter_attempt(&self, name: &str, order: &Order) {
        let attempt = Attempt {
            id: order.id.clone(),
            ordered: SystemTime::now(),
            pid: None,
            started: false,
            running: None,
            lines: Vec::new(),
            ended: None,
        };
        self.ledger.change(&self.uid, |record| {
            let container = record.containers.entry(name.to_owned()).or_default();
            container.attempts.push(attempt);
        });
    }

    /// The pod's resolver files on the node, each with its mount point.
    fn files(&self) -> Vec<(PathBuf, PathBuf)> {
        let directory = self.scratch.join("pods").join(&self.uid);
        std::fs::create_dir_all(&directory).expect("/tmp is writable");
        let files = self.spec.files.iter().map(|(point, text)| {
            let point = PathBuf::from(point);
            let name = point.file_name().expect("a file has a name");
            let file = directory.join(name);
            std::fs::write(&file, text).expect("/tmp is writable");
            (file, point)
        });
        files.collect()
    }

    /// The file that the kubelet creates for each attempt of a container.
    fn termination_log(&self, container: &str) -> PathBuf {
        let id = new_container_id();
        let attempt = &id[8..16];
        let directory = self.scratch.join("pods").join(&self.uid);
        let directory = directory.join("containers").join(container);
        std::fs::create_dir_all(&directory).expect("/tmp is writable");
        let file = directory.join(attempt);
        std::fs::write(&file, "").expect("/tmp is writable");
        file
    }
}
