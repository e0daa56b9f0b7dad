//! The other pods of the node: some finish, some start.

use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::health::HealthProbe;
use super::{APP, SIDECAR};
use crate::synthetic::catalog::mesh;
use crate::synthetic::clock::monotonic_ns;
use crate::synthetic::wire::Listen;
use crate::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};
use futures::future::join_all;
use usher_core::base::id;
use usher_sys::pods::pidfd::Pidfd;

const FINISHING: usize = 6;
const STARTING: usize = 3;
/// The number of `/healthz` responses between two actions. It spreads the actions over a part of the attack.
const RESPONSES: usize = 5;

pub(super) struct Neighbours {
    finishing: Vec<Pod>,
    starting: Vec<Pod>,
}

/// How the agent served them.
#[derive(Debug)]
pub struct Served {
    /// The time from the exit of each app to the request to its sidecar.
    pub quits: Vec<Duration>,
    /// The time of each call of the CNI plugin.
    pub adds: Vec<Duration>,
    /// Pods without a table, although their connections are to be held.
    pub unheld: Vec<String>,
    /// Pods that the agent leaves alone.
    pub quarantined: Vec<String>,
}

impl Neighbours {
    pub(super) fn new(node: &Node, name: &str) -> Self {
        let finishing: Vec<PodSpec> = (0..FINISHING)
            .map(|number| PodSpec::job(&format!("{name}-finishes-{number}")))
            .collect();
        let starting = (0..STARTING).map(|number| {
            let spec = PodSpec::new(&format!("{name}-starts-{number}"))
                .with(ContainerSpec::app(APP).later())
                .with(mesh::proxy(Listen::OnCommand).later())
                .announced_on_command();
            node.create(&spec)
        });
        Self {
            starting: starting.collect(),
            finishing: node.run_all(&finishing),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.finishing.len() + self.starting.len()
    }

    /// Finishes and starts all of them.
    pub(super) fn act(&self, agent: &Agent, health: &HealthProbe) -> Served {
        let exits = thread::scope(|scope| {
            let (opened, ready) = channel();
            let exits = scope.spawn(move || exits(&self.finishing, &opened));
            ready.recv().expect("the processes of the apps exist");
            for (number, pod) in self.finishing.iter().enumerate() {
                pod.finish(APP, 0);
                if let Some(pod) = self.starting.get(number) {
                    pod.announce();
                }
                health.wait(RESPONSES);
            }
            exits.join().expect("the kernel reports the exits")
        });
        let delays = self.finishing.iter().zip(exits).map(|(pod, exit_ns)| {
            // The sidecar may be faster than this process.
            let delay = pod.request(SIDECAR).at_ns.saturating_sub(exit_ns);
            Duration::from_nanos(delay)
        });
        let quits = delays.collect();
        let adds = self.starting.iter().map(|pod| pod.added(1).took);
        Served {
            quits,
            adds: adds.collect(),
            unheld: self.unheld(),
            quarantined: self.quarantined(agent),
        }
    }

    fn quarantined(&self, agent: &Agent) -> Vec<String> {
        let names = self.starting.iter().chain(&self.finishing).map(Pod::name);
        names
            .filter(|name| agent.decisions(name).iter().any(|one| one == "quarantined"))
            .collect()
    }

    fn unheld(&self) -> Vec<String> {
        let unheld = self.starting.iter().filter(|pod| !has_table(pod));
        unheld.map(Pod::name).collect()
    }
}

/// The moments at which the kernel reports the exits of the apps, in nanoseconds of `CLOCK_MONOTONIC`. Sends a message
/// when it watches all of them.
fn exits(pods: &[Pod], watching: &Sender<()>) -> Vec<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let processes: Vec<Pidfd> = pods
            .iter()
            .map(|pod| Pidfd::open(id::Pid(pod.pid(APP))).expect("the app runs"))
            .collect();
        watching.send(()).expect("the caller waits for it");
        let exits = processes.iter().map(async |process| {
            process.exited().await;
            monotonic_ns()
        });
        join_all(exits).await
    })
}

fn has_table(pod: &Pod) -> bool {
    let output = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["nft", "list", "tables"])
        .output()
        .expect("nsenter runs");
    String::from_utf8_lossy(&output.stdout).contains("table inet usher")
}
