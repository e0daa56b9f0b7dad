//! A pod's network: its announcement to the agent, its rules, its connections.

use std::path::PathBuf;

use super::Pod;
use crate::synthetic::node::Node;
use crate::synthetic::program;
use crate::synthetic::spec::PodSpec;
use crate::synthetic::wire::{Added, Announcement, Capture, Command};

/// The name of the plugin, and of a variable that names another binary.
const PLUGIN: &str = "usher-cni";
const BINARY: &str = "USHER_CNI_BIN";

/// The result of a [`Client`](crate::synthetic::wire::Client). Times are in
/// nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Default)]
pub struct ClientResult {
    /// The start of its `main`.
    pub main_ns: u64,
    /// The time of each successful connect.
    pub connected_ns: Vec<u64>,
    /// The time of each response.
    pub answered_ns: Vec<u64>,
    /// The errno and the time of each failed connect.
    pub failed: Vec<(i32, u64)>,
    /// The original destinations that the peer reports, without repetition.
    pub reached: Vec<String>,
    /// The exit code of the client; 0 if all connections succeeded.
    pub code: i32,
}

impl Pod {
    /// Waits until the CNI plugin has been called this many times, and returns
    /// the last call.
    pub fn added(&self, times: usize) -> Added {
        let what = format!("call {times} of the CNI plugin for {}", self.name());
        self.ledger.wait(&self.uid, &what, |record| {
            record.added.get(times.checked_sub(1)?).cloned()
        })
    }

    /// Runs a script of the `nft` program in its network namespace. Does not
    /// wait.
    pub fn filter(&self, script: &str) {
        self.command(&Command::Filter(script.to_owned()));
    }

    /// Waits for the exit of a client.
    pub fn client_result(&self, container: &str) -> ClientResult {
        let ended = self.ended(container);
        client_result_from(&self.lines(container), ended.code())
    }

    /// Waits until a client that stays has tried this many
    /// connections.
    pub fn client_result_so_far(&self, container: &str, connections: usize) -> ClientResult {
        self.wait_attempt(container, "the connections of a client", |attempt| {
            let result = client_result_from(&attempt.lines, 0);
            let over = result.connected_ns.len() + result.failed.len();
            (over >= connections).then_some(result)
        })
    }

    /// A path of its network namespace, valid while the pod lives.
    pub fn network_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.shim.id()))
    }
}

fn client_result_from(lines: &[String], code: i32) -> ClientResult {
    let mut result = ClientResult {
        code,
        ..ClientResult::default()
    };
    for line in lines {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let mut numbers = words.clone().filter_map(|word| word.parse().ok());
        match kind {
            "main" => result.main_ns = numbers.next().unwrap_or_default(),
            "answered" => result.answered_ns.extend(numbers),
            "connected" => result.connected_ns.extend(numbers),
            "failed-to-connect" => {
                let errno = words.next().and_then(|word| word.parse().ok());
                let at = words.filter_map(|word| word.parse().ok());
                result
                    .failed
                    .extend(at.map(|at| (errno.unwrap_or_default(), at)));
            }
            "reached" => result.reached.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    result
}

/// The rules that a pod has from its start.
pub(super) fn filter(spec: &PodSpec) -> String {
    let captured = spec.capture.as_ref().map(Capture::script);
    captured.unwrap_or_default() + &spec.filter
}

/// The pod's announcement, as the plugin sends it.
pub(super) fn announcement(node: &Node, spec: &PodSpec) -> Option<Announcement> {
    let timeout = spec.announced?;
    Some(Announcement {
        plugin: plugin(),
        namespace: spec.namespace.clone(),
        name: spec.name.clone(),
        socket: node.run_dir().join("cni.sock"),
        log: node.plugin_log(),
        timeout,
    })
}

fn plugin() -> PathBuf {
    if let Some(path) = std::env::var_os(BINARY) {
        return path.into();
    }
    program::beside_this(PLUGIN).unwrap_or_else(|| {
        panic!("{PLUGIN} is not built; run: cargo build -p {PLUGIN}, or set {BINARY}")
    })
}
