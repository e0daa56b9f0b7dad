//! A scenario that makes the agent perform each of its actions in a few steps.
//!
//! Two pods. The first is announced and captured by a mesh, the start and the connections of its app wait for two
//! sidecars, and an operator sends an order. The second is not announced, the version of its sidecar is queried, and
//! another sidecar ends by a signal. It requests linger.

use std::cell::RefCell;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use usher_tests::synthetic::agent::Log;
use usher_tests::synthetic::catalog::{dapr, istio, logs, mesh};
use usher_tests::synthetic::spec::STATUS_PORT;
use usher_tests::synthetic::wire::{Capture, Client, Listen, Listener, Manner, Pace};
use usher_tests::synthetic::{ApiServer, ContainerSpec, Node, Pod, PodSpec, usher};

pub(crate) const APP: &str = "app";
const OTHER: &str = "other";
pub(crate) const PROXY: &str = "istio-proxy";
pub(crate) const DAPR: &str = "daprd";
pub(crate) const LOGS: &str = "fluent-bit";
const DAPR_PORT: u16 = 50_001;
/// A remote address without a listener.
const FAR: &str = "10.7.7.7:8080";
const ENFORCE: [(&str, &str); 1] = [("usher.dev/mode", "enforce")];
/// Long enough for a debug build on a busy machine.
const PACE: Pace = Pace {
    create: std::time::Duration::from_millis(200),
    exec: std::time::Duration::from_millis(200),
    ..Pace::CONTAINERD
};

/// The steps, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The pods are created, without the app of the held one.
    Come,
    /// An operator requests the repair of its table.
    Order,
    /// Its app starts.
    Start,
    /// One of its two sidecars listens.
    Half,
    /// Both sidecars listen.
    Ready,
    /// The apps exit.
    Finish,
    /// The pods are removed.
    Leave,
}

pub(crate) const STEPS: [Step; 7] = [
    Step::Come,
    Step::Order,
    Step::Start,
    Step::Half,
    Step::Ready,
    Step::Finish,
    Step::Leave,
];

/// A node with two pods. The pods are dropped before their node.
pub(crate) struct Scenario {
    pub(crate) held: RefCell<Option<Pod>>,
    pub(crate) plain: RefCell<Option<Pod>>,
    order: RefCell<Option<Child>>,
    /// The agent has to renew the kernel's timeout once.
    renewed: bool,
    /// Another app exits during the hold of its start.
    dies: bool,
    pub(crate) server: ApiServer,
    pub(crate) node: Node,
}

impl Scenario {
    pub(crate) fn set(place: &str) -> Self {
        let node = Node::with_bundles();
        // The agent has the mode before it reads from the API server, and receives it again from there.
        node.annotate(&ENFORCE);
        let server = ApiServer::start();
        server.annotate(&ENFORCE);
        Self {
            held: RefCell::default(),
            plain: RefCell::default(),
            order: RefCell::default(),
            renewed: place.ends_with(":renew"),
            dies: place.ends_with(":release-start"),
            server,
            node,
        }
    }

    /// Starts a step. Does not wait.
    pub(crate) fn act(&self, step: Step) {
        if step == Step::Come {
            // The renewal is due at half of the timeout, and the next agent starts in the remaining time.
            let deadline = if self.renewed { "30s" } else { "60s" };
            let mut held = held(deadline);
            if self.dies {
                let other = ContainerSpec::client(OTHER, Client::to(FAR).staying());
                held = held.with(other.pace(PACE).later());
            }
            *self.held.borrow_mut() = Some(self.node.create(&held));
            *self.plain.borrow_mut() = Some(self.node.create(&plain()));
        }
        if step == Step::Leave {
            self.held.take();
            self.plain.take();
            return;
        }
        self.of_held(|held| match step {
            Step::Come | Step::Leave => {}
            Step::Order => {
                // A change that has to be repaired.
                let more = "{ 9999 timeout 60s }";
                nft(held, &["add", "element", "inet", "usher", "held", more]);
                *self.order.borrow_mut() = Some(self.repair());
            }
            Step::Start => {
                held.start(APP);
                if self.dies {
                    held.start(OTHER);
                }
            }
            Step::Half => {
                if self.dies {
                    held.signal(OTHER, Signal::SIGKILL);
                    held.ended(OTHER);
                }
                held.send_line(DAPR, "listen");
            }
            Step::Ready => held.send_line(PROXY, "listen"),
            Step::Finish => {
                held.finish(APP, 0);
                self.of_plain(|plain| plain.finish(APP, 0));
            }
        });
    }

    /// Whether a step is complete, from the pods and the agent's log.
    pub(crate) fn is_done(&self, step: Step, log: &Log) -> bool {
        if step == Step::Leave {
            return self.held.borrow().is_none();
        }
        self.of_held(|held| match step {
            Step::Come => {
                let asked = self.of_plain(|plain| !plain.requests(PROXY).is_empty());
                // No app has started yet: an agent that starts after a kill holds the pod as well.
                !self.renewed_later(log) && asked && has_table(held)
            }
            Step::Order => {
                let mut order = self.order.borrow_mut();
                match order.as_mut().and_then(|order| order.try_wait().unwrap()) {
                    Some(status) if !status.success() => {
                        // The busy machine sent no response in time, so the order is repeated.
                        *order = Some(self.repair());
                        false
                    }
                    ended => ended.is_some(),
                }
            }
            Step::Start => {
                let is_held = |line: &Value| line["decision"] == "start-held";
                let apps = if self.dies { 2 } else { 1 };
                held.has_run(APP) || log.count(is_held) == apps
            }
            Step::Half => !held_ports(held).contains(&DAPR_PORT.to_string()),
            Step::Ready => {
                let is_over = |line: &String| {
                    line.starts_with("connected ") || line.starts_with("failed-to-connect ")
                };
                held.lines(APP).iter().any(is_over)
            }
            Step::Finish => {
                let gone = |pod: &Pod, name| pod.end_so_far(name).is_some();
                let plain = self.of_plain(|plain| gone(plain, PROXY) && gone(plain, LOGS));
                plain && gone(held, PROXY) && gone(held, DAPR)
            }
            Step::Leave => true,
        })
    }

    pub(crate) fn of_held<T>(&self, then: impl FnOnce(&Pod) -> T) -> T {
        then(self.held.borrow().as_ref().unwrap())
    }

    pub(crate) fn of_plain<T>(&self, then: impl FnOnce(&Pod) -> T) -> T {
        then(self.plain.borrow().as_ref().unwrap())
    }

    /// The agent that is to be killed at a renewal has not reached it yet.
    fn renewed_later(&self, log: &Log) -> bool {
        let is_kill = |line: &Value| line["decision"] == "hold-adopted";
        self.renewed && log.count(is_kill) == 0
    }

    fn repair(&self) -> Child {
        usher::command_on(&self.node)
            .args(["rules", "held", "--fix"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        if let Some(order) = self.order.borrow_mut().as_mut() {
            drop(order.kill());
            drop(order.wait());
        }
    }
}

fn held(deadline: &str) -> PodSpec {
    let app = ContainerSpec::client(APP, Client::to(FAR).staying());
    let proxy = mesh::proxy(Listen::OnCommand);
    PodSpec::new("held")
        .with(app.pace(PACE).later())
        .with(proxy.listener(Listener::mannered(STATUS_PORT, Manner::Quit)))
        .with(dapr::starting(Listen::OnCommand))
        .captured(Capture::default())
        .announced()
        .annotation("usher.dev/hold", "start")
        .annotation("usher.dev/hold-deadline", deadline)
}

fn plain() -> PodSpec {
    let spec = istio::v1_20_by_digest().job("plain");
    spec.with(logs::fluent_bit().container)
        .annotation("usher.dev/linger", "true")
}

/// Runs `nft` in a pod's network namespace.
fn nft(pod: &Pod, words: &[&str]) -> Output {
    Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .arg("nft")
        .args(words)
        .output()
        .unwrap()
}

pub(crate) fn has_table(pod: &Pod) -> bool {
    let tables = nft(pod, &["list", "tables"]);
    assert!(tables.status.success(), "{tables:?}");
    String::from_utf8(tables.stdout)
        .unwrap()
        .contains("table inet usher")
}

/// The held ports and their timeouts, as `nft` prints them; empty if there are none.
pub(crate) fn held_ports(pod: &Pod) -> String {
    // It fails if there is no table.
    let set = nft(pod, &["list", "set", "inet", "usher", "held"]);
    let set = String::from_utf8(set.stdout).unwrap();
    let elements = set.split_once("elements = {");
    elements.map_or_else(String::new, |(_before, elements)| elements.to_owned())
}
