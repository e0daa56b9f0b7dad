//! The real agent, as a process on a synthetic node.

mod holder;
mod log;
mod scrape;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::synthetic::ledger::PATIENCE;
use crate::synthetic::process::{self, Traced, Usage};
use crate::synthetic::{Node, node, program};

pub use holder::Holder;
pub use log::Log;

/// Names a binary to test instead of the built one.
const BINARY: &str = "USHER_AGENT_BIN";
/// What the agent logs, for whoever looks for the cause of a failure.
const FILTER: &str = "USHER_AGENT_LOG";
const NAME: &str = "usher-agent";
/// Metrics tell no one when they change, so they are looked at this often.
const LOOK: Duration = Duration::from_millis(10);

/// A running agent. Killed on drop.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    log: Log,
    readers: Vec<JoinHandle<()>>,
    http: SocketAddr,
}

impl Agent {
    /// Starts the agent on a node and waits until it serves HTTP.
    ///
    /// # Panics
    ///
    /// When it is not built or ends before it serves.
    pub fn start(node: &Node) -> Self {
        Self::start_masked(node, &[])
    }

    /// The same with further flags.
    pub fn start_with(node: &Node, flags: &[String]) -> Self {
        let mut command = on(node, &binary());
        command.args(flags);
        Self::execute(node, command)
    }

    /// Runs the agent with these flags until it has done what they ask for, and
    /// returns its exit code and its log.
    ///
    /// # Panics
    ///
    /// When it is not built.
    pub fn run_once(flags: &[String]) -> (Option<i32>, String) {
        let ran = Command::new(binary())
            .args(["--node-name", node::NAME])
            .args(flags)
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .expect("the agent's binary runs");
        let log = String::from_utf8_lossy(&ran.stdout).into_owned();
        (ran.status.code(), log)
    }

    /// The same, and where the agent reads the second path of a pair, it finds
    /// the first.
    pub fn start_masked(node: &Node, masks: &[(PathBuf, PathBuf)]) -> Self {
        if masks.is_empty() {
            return Self::execute(node, on(node, &binary()));
        }
        let json = serde_json::to_string(&masks).expect("paths are UTF-8");
        let mut command = on(node, &program::path());
        command.arg("mask").arg(json).arg(binary());
        Self::execute(node, command)
    }

    fn execute(node: &Node, mut command: Command) -> Self {
        let filter = std::env::var(FILTER).unwrap_or_else(|_| "info".to_owned());
        command.env_clear();
        if let Some(directory) = node.bundle_dir() {
            command.env("USHER_BUNDLE_DIR", directory);
        }
        let mut process = command
            .args(["--node-name", node::NAME, "--api-server", "off"])
            .args(["--http", "127.0.0.1:0", "--log-format", "json"])
            .args(["--log", &filter])
            .args(["--kubelet", &node.kubelet().url()])
            .arg("--cgroup-root")
            .arg(node.cgroup_root())
            .arg("--run-dir")
            .arg(node.run_dir())
            .arg("--config")
            .arg(node.config_file())
            .arg("--kubelet-token")
            .arg(node.token_file())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent's binary runs");
        let log = Log::default();
        let readers = vec![
            log.follow(process.stdout.take().expect("piped above")),
            log.follow(process.stderr.take().expect("piped above")),
        ];
        let served = log.wait("the agent to serve HTTP", |line| {
            line.get("http")?.as_str()?.parse().ok()
        });
        Self {
            process,
            log,
            readers,
            http: served,
        }
    }

    /// Its log so far, and how to wait for more.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Waits for a decision about a pod (`namespace/name`) and returns its log
    /// line.
    pub fn wait_for(&self, decision: &str, pod: &str) -> Value {
        let what = format!("{decision} of {pod}");
        self.log.wait(&what, |line| {
            (line["decision"] == decision && line["pod"] == pod).then(|| line.clone())
        })
    }

    /// The decisions about a pod so far.
    pub fn decisions(&self, pod: &str) -> Vec<String> {
        let lines = self.log.lines();
        let of_pod = lines.iter().filter(|line| line["pod"] == pod);
        of_pod
            .filter_map(|line| line["decision"].as_str().map(str::to_owned))
            .collect()
    }

    /// Its metrics, as text.
    pub fn metrics(&self) -> String {
        scrape::get(self.http, "/metrics")
    }

    /// The sum of a metric's samples whose labels contain this text.
    pub fn metric(&self, name: &str, labels: &str) -> f64 {
        scrape::sum(&self.metrics(), name, labels)
    }

    /// Waits until [`Agent::metric`] is as wanted.
    ///
    /// # Panics
    ///
    /// When that takes too long.
    pub fn wait_metric(&self, name: &str, labels: &str, wanted: impl Fn(f64) -> bool) -> f64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.metric(name, labels);
            if wanted(value) {
                return value;
            }
            assert!(
                Instant::now() < deadline,
                "{name}{{{labels}}} stays {value}; the agent's log: {:#?}",
                self.log.lines()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it has cost so far.
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid())
    }

    /// Number of its open descriptors.
    pub fn open_descriptors(&self) -> usize {
        process::open_descriptors(self.pid())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("pids are small");
        // Not waited for, so the pid is still its own.
        kill(Pid::from_raw(pid), signal).expect("the agent is our child");
    }

    /// Stops its main thread, and nothing else of it, while this runs: a wedged
    /// agent.
    ///
    /// # Panics
    ///
    /// When nobody may trace here.
    pub fn wedged<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let traced = Traced::stop(self.pid());
        let outcome = meanwhile();
        traced.release();
        outcome
    }

    /// Kills it, as `kill -9` does, and returns its whole log.
    pub fn kill(mut self) -> Vec<Value> {
        self.end();
        self.log.lines()
    }

    /// Asks it to end and returns its exit code, None if a signal ended it.
    pub fn stop(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.log.wait_closed();
        let status = self.process.wait().expect("it is our child");
        status.code()
    }

    fn end(&mut self) {
        let holder = self.holder();
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
        // The other process ends by itself and closes the log, unless it is
        // stopped.
        if !self.log.closes() {
            holder.into_iter().for_each(Holder::end);
        }
        for reader in self.readers.drain(..) {
            drop(reader.join());
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            self.log.print();
        }
    }
}

/// The agent is a pod that receives the node's mounts, if the node has any.
fn on(node: &Node, program: &Path) -> Command {
    let bundles = node.bundles();
    bundles.map_or_else(|| Command::new(program), |bundles| bundles.beside(program))
}

/// The agent's binary.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os(BINARY) {
        return path.into();
    }
    program::beside_this(NAME).unwrap_or_else(|| {
        let release = if cfg!(debug_assertions) {
            ""
        } else {
            " --release"
        };
        panic!("{NAME} is not built; run: cargo build{release} -p {NAME}, or set {BINARY}")
    })
}
