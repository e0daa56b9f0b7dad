//! The real agent, as a process on a synthetic node.

mod boundary;
mod holder;
mod log;
mod scrape;

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::synthetic::process::{self, Traced, Usage};
use crate::synthetic::{ApiServer, Node, node, program};
use crate::wait::patience;

pub use boundary::Doomed;
pub use holder::Holder;
pub use log::Log;

/// Names a binary to test instead of the built one.
const BINARY: &str = "USHER_AGENT_BIN";
/// The agent's log filter, to find the cause of a failure.
const FILTER: &str = "USHER_AGENT_LOG";
const NAME: &str = "usher-agent";
/// Where it serves HTTP.
const HTTP: &str = "USHER_HTTP";
/// Metrics tell no one when they change, so they are looked at this often.
const LOOK: Duration = Duration::from_millis(10);

/// Until it is known where it serves HTTP.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

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
        Self::execute(node, command, None)
    }

    /// The same with an API server, which has the Node.
    pub fn start_with_api(node: &Node, server: &ApiServer, flags: &[&str]) -> Self {
        let mut command = on(node, &binary());
        command.args(flags);
        Self::execute(node, command, Some(server))
    }

    /// Starts it below a program that executes what follows its arguments.
    pub fn start_below(node: &Node, program: &str, arguments: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).arg("--").arg(binary());
        Self::execute(node, command, None)
    }

    /// Starts it without some of root's capabilities, in setpriv's words.
    pub fn start_without(node: &Node, server: &ApiServer, capabilities: &str) -> Self {
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set", capabilities, "--inh-caps", capabilities])
            .arg(binary());
        Self::execute(node, command, Some(server))
    }

    /// Starts it without flags; where it reads the second path of a pair, it
    /// finds the first.
    pub fn start_masked(node: &Node, masks: &[(PathBuf, PathBuf)]) -> Self {
        if masks.is_empty() {
            return Self::execute(node, on(node, &binary()), None);
        }
        let json = serde_json::to_string(&masks).expect("paths are UTF-8");
        let mut command = on(node, &program::path());
        command.arg("mask").arg(json).arg(binary());
        Self::execute(node, command, None)
    }

    fn execute(node: &Node, command: Command, server: Option<&ApiServer>) -> Self {
        let mut agent = Self::spawn(node, command, server, &[]);
        agent.http = agent.log.wait("the agent to serve HTTP", served);
        agent
    }

    /// Starts it with these variables and does not wait for anything; where it serves HTTP is not known.
    fn spawn(
        node: &Node,
        mut command: Command,
        server: Option<&ApiServer>,
        variables: &[(&str, &OsStr)],
    ) -> Self {
        let filter = std::env::var(FILTER).unwrap_or_else(|_| "info".to_owned());
        command
            .env_clear()
            .env(HTTP, "127.0.0.1:0")
            .envs(variables.iter().copied());
        if let Some(directory) = node.bundle_dir() {
            command.env("USHER_BUNDLE_DIR", directory);
        }
        let api_server = match server {
            Some(server) => {
                command.env("KUBECONFIG", server.kubeconfig());
                "in-cluster"
            }
            None => "off",
        };
        let mut process = command
            .args(["--node-name", node::NAME, "--api-server", api_server])
            .args(["--log-format", "json"])
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
        Self {
            process,
            log,
            readers,
            http: NOWHERE,
        }
    }

    /// Starts another one on its node, by accident at the same address, and waits until that one has ended.
    ///
    /// # Panics
    ///
    /// When it does not end.
    pub fn rival(&self, node: &Node) -> Vec<Value> {
        let address = self.http.to_string();
        let rival = Self::spawn(node, on(node, &binary()), None, &[(HTTP, address.as_ref())]);
        rival.log.wait_closed();
        rival.kill()
    }

    /// Where it serves HTTP.
    pub const fn http(&self) -> SocketAddr {
        self.http
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

    /// What it answers to a request: a status, and a text.
    pub fn get(&self, path: &str) -> (u16, String) {
        scrape::ask(self.http, path)
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
        let deadline = Instant::now() + patience();
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

    /// Stops only the agent's main thread while this runs: a wedged
    /// agent.
    ///
    /// # Panics
    ///
    /// If ptrace is not permitted here.
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
        // A reader that waits would never see the end.
        self.log.resume();
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

/// Where a line of its log says that it serves HTTP.
fn served(line: &Value) -> Option<SocketAddr> {
    line.get("http")?.as_str()?.parse().ok()
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
