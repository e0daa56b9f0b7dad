//! The real agent, as a process on a synthetic node.

mod boundary;
mod holder;
mod log;
mod scrape;
mod worker;

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::synthetic::limit::Limited;
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
/// Where the agent serves metrics.
const HTTP: &str = "USHER_METRICS_BIND_ADDRESS";
/// Where the agent serves probes.
const PROBES: &str = "USHER_HEALTH_PROBE_BIND_ADDRESS";
/// Metrics have no notification, so this is the polling interval.
const LOOK: Duration = Duration::from_millis(10);

/// The placeholder address until the agent logs the one that it serves at.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A running agent. Killed on drop.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    log: Log,
    readers: Vec<JoinHandle<()>>,
    http: SocketAddr,
    probes: SocketAddr,
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

    /// The same with additional flags.
    pub fn start_with(node: &Node, flags: &[String]) -> Self {
        let mut command = on(node, &binary());
        command.args(flags);
        Self::execute(node, command, None)
    }

    /// The same with an API server that has the Node.
    pub fn start_with_api(node: &Node, server: &ApiServer, flags: &[&str]) -> Self {
        let mut command = on(node, &binary());
        command.args(flags);
        Self::execute(node, command, Some(server))
    }

    /// Starts it through a program that executes its remaining arguments.
    pub fn start_below(node: &Node, program: &str, arguments: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).arg("--").arg(binary());
        Self::execute(node, command, None)
    }

    /// Starts it among the processes of a cgroup.
    pub fn start_limited(node: &Node, server: Option<&ApiServer>, limited: &Limited) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(limited.command()).arg("--").arg(binary());
        Self::execute(node, command, server)
    }

    /// Starts it without some of root's capabilities, in the syntax of setpriv.
    pub fn start_without(node: &Node, server: &ApiServer, capabilities: &str) -> Self {
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set", capabilities, "--inh-caps", capabilities])
            .arg(binary());
        Self::execute(node, command, Some(server))
    }

    /// Starts it without flags. For each pair of paths, the agent finds the first file at the
    /// second path.
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
        (agent.probes, agent.http) = agent.log.wait("the agent to serve HTTP", served);
        agent
    }

    /// Starts it with these variables and waits for nothing; its HTTP address is unknown.
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
            .env(PROBES, "127.0.0.1:0")
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
        if !command.get_args().any(|flag| flag == "--log") {
            command.args(["--log", &filter]);
        }
        let mut process = command
            .args(["--node-name", node::NAME, "--api-server", api_server])
            .args(["--log-format", "json"])
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
            probes: NOWHERE,
        }
    }

    /// Starts the next agent on the node of an agent that was killed, with the same addresses and API server, and waits
    /// until it serves HTTP.
    pub fn start_next(&self, node: &Node, server: Option<&ApiServer>) -> Self {
        let [http, probes] = [self.http, self.probes].map(|address| address.to_string());
        let variables = [(HTTP, http.as_ref()), (PROBES, probes.as_ref())];
        let mut next = Self::spawn(node, on(node, &binary()), server, &variables);
        (next.probes, next.http) = next.log.wait("the next agent to serve HTTP", served);
        next
    }

    /// Starts another agent on its node, with the same address for probes, and waits until that agent has exited.
    ///
    /// # Panics
    ///
    /// If it does not exit.
    pub fn rival(&self, node: &Node) -> Vec<Value> {
        let address = self.probes.to_string();
        let variables = [(PROBES, address.as_ref())];
        let rival = Self::spawn(node, on(node, &binary()), None, &variables);
        rival.log.wait_closed();
        rival.kill()
    }

    /// The address of its metrics.
    pub const fn http(&self) -> SocketAddr {
        self.http
    }

    /// The address of its probes.
    pub const fn probes(&self) -> SocketAddr {
        self.probes
    }

    /// Its log so far, with functions to wait for more.
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

    /// The response to a probe: status and body.
    pub fn get(&self, path: &str) -> (u16, String) {
        scrape::ask(self.probes, path)
    }

    /// Its metrics, as text.
    pub fn metrics(&self) -> String {
        scrape::get(self.http, "/metrics")
    }

    /// The sum of a metric's samples whose labels contain this text.
    pub fn metric(&self, name: &str, labels: &str) -> f64 {
        scrape::sum(&self.metrics(), name, labels)
    }

    /// Waits until [`Agent::metric`] has the expected value.
    ///
    /// # Panics
    ///
    /// After a timeout.
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

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The resource usage of its main process so far.
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid())
    }

    /// The same of all its processes.
    pub fn whole_usage(&self) -> Usage {
        Usage::with_children(self.pid())
    }

    /// Whether it waits for the end of a process.
    pub fn watches(&self, pid: i32) -> bool {
        process::has_pidfd(self.pid(), pid)
    }

    pub fn open_descriptors(&self) -> usize {
        process::open_descriptors(self.pid())
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("pids are small");
        // The child is not reaped yet, so no other process has its pid.
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

    /// Kills it with SIGKILL, and returns its whole log.
    ///
    /// # Panics
    ///
    /// If its holder does not exit.
    pub fn kill(mut self) -> Vec<Value> {
        self.end();
        self.log.lines()
    }

    /// Terminates it and returns its exit code, None if a signal ended it.
    pub fn stop(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.log.wait_closed();
        let status = self.process.wait().expect("it is our child");
        status.code()
    }

    fn end(&mut self) {
        let holder = self.holder();
        // The process may have exited.
        drop(self.process.kill());
        drop(self.process.wait());
        // Its children exit on their own and close the log; a stopped holder by its timer.
        let closed = self.log.closes();
        let left = holder.filter(|holder| !closed && holder.end());
        for reader in self.readers.drain(..) {
            drop(reader.join());
        }
        assert!(
            left.is_none() || std::thread::panicking(),
            "{left:?} ran on without its agent; the log: {:#?}",
            self.log.lines()
        );
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A paused reader would never reach the end of the log.
        self.log.resume();
        self.end();
        if std::thread::panicking() {
            self.log.print();
        }
    }
}

/// The agent's command, as in a pod that receives the node's mounts, if the node has any.
fn on(node: &Node, program: &Path) -> Command {
    let bundles = node.bundles();
    bundles.map_or_else(|| Command::new(program), |bundles| bundles.beside(program))
}

/// The addresses of probes and metrics in a line of its log. An agent that cleans up serves no metrics.
fn served(line: &Value) -> Option<(SocketAddr, SocketAddr)> {
    let address = |field| line.get(field)?.as_str()?.parse().ok();
    Some((address("probes")?, address("http").unwrap_or(NOWHERE)))
}

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
