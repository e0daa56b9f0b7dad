//! A pod, with the actions of a test on it and its results.

mod create;
mod id;
mod network;
mod order;
mod start;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use nix::sys::signal::Signal;

use crate::synthetic::bundles::Places;
use crate::synthetic::layout::{Driver, Runtime};
use crate::synthetic::ledger::{Attempt, ContainerRecord, Ended, Ledger, PodRecord};
use crate::synthetic::process;
use crate::synthetic::spec::{ContainerSpec, PodSpec};
use crate::synthetic::wire::{self, Order};

use id::new_container_id;

pub use network::ClientResult;

/// The sandbox, which is not a container of the spec.
const PAUSE: &str = "";

/// A request that a sidecar received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The time at which its head was complete, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The port that received it.
    pub port: u16,
    /// Method, path and version.
    pub line: String,
}

/// A pod on a [`Node`](crate::synthetic::Node), removed on drop.
#[derive(Debug)]
pub struct Pod {
    uid: String,
    spec: PodSpec,
    driver: Driver,
    runtime: Runtime,
    cgroup: PathBuf,
    scratch: PathBuf,
    ledger: Arc<Ledger>,
    bundles: Option<Places>,
    shim: Child,
    orders: Option<Mutex<ChildStdin>>,
    /// Its init containers have completed.
    initialized: AtomicBool,
}

impl Pod {
    /// The current record of the pod.
    ///
    /// # Panics
    ///
    /// Never: a pod stays on its node's ledger until it is dropped.
    pub fn record(&self) -> PodRecord {
        let pods = self.ledger.pods();
        pods.get(&self.uid).cloned().expect("it is on its node")
    }

    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// `namespace/name`, as the agent writes it.
    pub fn name(&self) -> String {
        format!("{}/{}", self.spec.namespace, self.spec.name)
    }

    pub const fn cgroup(&self) -> &PathBuf {
        &self.cgroup
    }

    /// Waits until every container that was created with the pod runs.
    pub fn wait_running(&self) {
        self.initialize();
        for container in self.spec.containers.iter().filter(|spec| spec.at_once) {
            self.wait_container(&container.name);
        }
    }

    /// Waits until a container has executed its program, and a sidecar with immediate
    /// listeners listens. Returns its init process, which may have exited.
    pub fn wait_container(&self, container: &str) -> i32 {
        let expected = self.container(container).listeners_at_once();
        self.wait_attempt(container, "a running container", |attempt| {
            let lines = attempt.lines.iter();
            let listening = lines.filter(|line| line.starts_with("listening")).count();
            attempt
                .pid
                .filter(|_| attempt.running.is_some() && listening >= expected)
        })
    }

    pub fn start(&self, container: &str) {
        self.create(self.container(container));
    }

    /// Makes the kubelet report a running container that has no processes on the node, as in a virtual
    /// machine. Returns its id.
    pub fn claim(&self, container: &str) -> String {
        let id = new_container_id();
        let attempt = Attempt {
            id: id.clone(),
            ordered: SystemTime::now(),
            pid: None,
            started: true,
            running: None,
            lines: Vec::new(),
            ended: None,
        };
        self.ledger.change(&self.uid, |record| {
            let entry = record.containers.entry(container.to_owned());
            entry.or_default().attempts.push(attempt);
        });
        id
    }

    /// Creates a container again, as the kubelet does under a restart policy: a new id, the same name.
    pub fn restart(&self, container: &str) {
        self.ended(container);
        self.create(self.container(container));
    }

    /// The same, with other delays.
    pub fn restart_at(&self, container: &str, pace: wire::Pace) {
        self.ended(container);
        self.start_at(container, pace);
    }

    /// Starts a container with other delays, alongside a live run of it.
    pub fn start_at(&self, container: &str, pace: wire::Pace) {
        self.create(&self.container(container).clone().pace(pace));
    }

    /// The same, with an unused pid for its init process.
    /// Another process may take the pid first: check [`Pod::pid`].
    pub fn start_with_pid(&self, container: &str, pid: i32) {
        let order = self.order_for(self.container(container));
        self.place(
            container,
            Order {
                pid: Some(pid),
                ..order
            },
        );
    }

    /// Creates a container that was not created with the pod. On the command `enter-network`,
    /// its process enters the network namespace of another pod.
    pub fn start_entering_network(&self, container: &str, host: &Self) {
        let order = self.order_for(self.container(container));
        self.place(
            container,
            Order {
                enters_network_of: Some(host.pid(PAUSE)),
                ..order
            },
        );
    }

    /// Kills all processes in the pod and creates a new sandbox with a network
    /// namespace for later containers, as the kubelet
    /// does for a dead sandbox. The UID and the cgroup stay.
    pub fn replace_sandbox(&self) {
        let lives = |name: &&str| {
            let pods = self.ledger.pods();
            let record = pods.get(&self.uid);
            let container = record.and_then(|record| record.containers.get(*name));
            let last = container.and_then(|container| container.attempts.last());
            last.is_some_and(|attempt| attempt.ended.is_none())
        };
        let containers = self.spec.containers.iter().map(|spec| spec.name.as_str());
        let living: Vec<&str> = containers.filter(lives).collect();
        drop(std::fs::write(self.cgroup.join("cgroup.kill"), "1"));
        for container in living.into_iter().chain([PAUSE]) {
            self.ended(container);
        }
        self.command(&wire::Command::RenewNetwork);
        self.pause();
    }

    /// Makes an app exit with this code. Does not wait.
    pub fn finish(&self, container: &str, code: u8) {
        self.send_line(container, &format!("exit {code}"));
    }

    /// Makes an app exit with this code at this nanosecond of
    /// `CLOCK_MONOTONIC`, so that many can exit at once. Does not wait.
    pub fn finish_at(&self, container: &str, code: u8, at_ns: u64) {
        self.send_line(container, &format!("exit {code} {at_ns}"));
    }

    pub fn send_line(&self, container: &str, line: &str) {
        let id = self.latest(container).id;
        let line = line.to_owned();
        self.command(&wire::Command::SendLine { id, line });
    }

    pub fn signal(&self, container: &str, signal: Signal) {
        let id = self.latest(container).id;
        let number = signal as i32;
        self.command(&wire::Command::Signal { id, number });
    }

    /// Waits for the exit of a container.
    pub fn ended(&self, container: &str) -> Ended {
        self.wait_attempt(container, "the end of a container", |attempt| {
            attempt.ended.clone()
        })
    }

    /// The exit of a container, if it has exited.
    pub fn end_so_far(&self, container: &str) -> Option<Ended> {
        self.latest(container).ended
    }

    /// Waits for the first request to a sidecar.
    pub fn request(&self, container: &str) -> Request {
        self.wait_attempt(container, "a request", |attempt| {
            requests(attempt).into_iter().next()
        })
    }

    /// The requests to the latest run of a sidecar so far.
    pub fn requests(&self, container: &str) -> Vec<Request> {
        requests(&self.latest(container))
    }

    /// Waits until a container prints a line with this prefix.
    pub fn wait_line(&self, container: &str, beginning: &str) -> String {
        self.wait_attempt(container, beginning, |attempt| {
            let line = attempt
                .lines
                .iter()
                .find(|line| line.starts_with(beginning));
            line.cloned()
        })
    }

    /// The lines that the latest run of a container has printed so far.
    pub fn lines(&self, container: &str) -> Vec<String> {
        self.latest(container).lines
    }

    /// Sets the deletion timestamp. No process ends.
    pub fn mark_deleted(&self) {
        self.ledger
            .change(&self.uid, |record| record.deleted = Some(SystemTime::now()));
    }

    /// The init process of a container's latest run, once it exists.
    pub fn pid(&self, container: &str) -> i32 {
        self.wait_attempt(container, "a process", |attempt| attempt.pid)
    }

    pub fn network(&self) -> Option<String> {
        process::network(i32::try_from(self.shim.id()).ok()?)
    }

    /// Its network namespace, which keeps its inode as long as this file is open.
    pub fn network_file(&self) -> File {
        File::open(format!("/proc/{}/ns/net", self.shim.id())).expect("the pod's namespace")
    }

    /// The id of a container's latest run.
    pub fn id(&self, container: &str) -> String {
        self.latest(container).id
    }

    /// Starts the removal of the pod, in any state. The drop of the pod completes it.
    pub fn begin_removal(&mut self) {
        self.orders = None;
    }

    fn container(&self, name: &str) -> &ContainerSpec {
        let mut containers = self
            .spec
            .init_containers
            .iter()
            .chain(&self.spec.containers);
        let found = containers.find(|container| container.name == name);
        found.unwrap_or_else(|| panic!("the pod has no container {name}"))
    }

    fn latest(&self, container: &str) -> Attempt {
        self.wait_record(container, "a container", |record| {
            record.attempts.last().cloned()
        })
    }

    fn wait_attempt<T>(
        &self,
        container: &str,
        what: &str,
        found: impl Fn(&Attempt) -> Option<T>,
    ) -> T {
        self.wait_record(container, what, |record| {
            record.attempts.last().and_then(&found)
        })
    }

    fn wait_record<T>(
        &self,
        container: &str,
        what: &str,
        found: impl Fn(&ContainerRecord) -> Option<T>,
    ) -> T {
        let what = format!("{what} ({container} of {})", self.name());
        self.ledger.wait(&self.uid, &what, |record| {
            record.containers.get(container).and_then(&found)
        })
    }

    fn command(&self, command: &wire::Command) {
        let mut line = serde_json::to_string(command).expect("plain data");
        line.push('\n');
        if let Some(orders) = &self.orders {
            let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
            // A shim that has exited has printed the reason.
            drop(orders.write_all(line.as_bytes()));
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.begin_removal();
        // The shim exits when it has removed the pod.
        drop(self.shim.wait());
        self.ledger.strike(&self.uid);
    }
}

fn requests(attempt: &Attempt) -> Vec<Request> {
    let lines = attempt.lines.iter().filter_map(|line| {
        let mut words = line.strip_prefix("request ")?.splitn(3, ' ');
        Some(Request {
            at_ns: words.next()?.parse().ok()?,
            port: words.next()?.parse().ok()?,
            line: words.next()?.to_owned(),
        })
    });
    lines.collect()
}
