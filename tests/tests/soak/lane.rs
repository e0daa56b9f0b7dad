//! Injects faults.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use usher_tests::synthetic::api_server::Trouble;
use usher_tests::synthetic::{Agent, ApiServer, Behaviour, Node};

use crate::fault::{Fault, Planned};
use crate::fault_log::FaultLog;
use crate::plan::EXCLUDED;

/// The annotations without faults.
const ENFORCE: (&str, &str) = ("usher.dev/mode", "enforce");
/// A mode without an effect by then is ignored.
const SEEN: Duration = Duration::from_secs(10);
/// The polling interval.
const LOOK: Duration = Duration::from_millis(20);
/// The files of an agent's run directory for the next agent.
const KEPT: [&str; 5] = [
    "timeline.jsonl",
    "node-annotations.json",
    "node-labels.json",
    "namespaces.json",
    "config.yaml",
];

/// The sockets that receive requests.
const SOCKETS: [&str; 2] = ["cni.sock", "admin.sock"];

/// Everything that faults affect: the node, its servers and its agent.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) node: Node,
    pub(crate) server: ApiServer,
    /// None while it is dead.
    pub(crate) agent: Mutex<Option<Agent>>,
    /// The log lines of dead agents.
    pub(crate) log_lines: Mutex<Vec<serde_json::Value>>,
    /// Agents that exited without a request.
    pub(crate) deaths: Mutex<Vec<String>>,
}

impl Stage {
    /// A node in enforce mode, with its agent.
    pub(crate) fn set() -> Self {
        let stage = Self {
            node: Node::with_bundles(),
            server: ApiServer::start(),
            agent: Mutex::default(),
            log_lines: Mutex::default(),
            deaths: Mutex::default(),
        };
        stage.server.annotate(&[ENFORCE]);
        stage.configure(1);
        stage.begin();
        stage
    }

    /// Calls a function with the agent.
    ///
    /// # Panics
    ///
    /// If it is dead, which only a fault causes.
    pub(crate) fn with<T>(&self, what: impl FnOnce(&Agent) -> T) -> T {
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        what(agent.as_ref().expect("faults that kill it start another"))
    }

    fn begin(&self) {
        let agent = Agent::start_with_api(&self.node, &self.server, &[]);
        *self.agent.lock().unwrap_or_else(PoisonError::into_inner) = Some(agent);
    }

    fn end(&self, how: impl FnOnce(&Agent), asked: bool) {
        let mut place = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(agent) = place.take() else { return };
        how(&agent);
        let mut log_lines = self
            .log_lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if asked {
            let log = agent.log().clone();
            let code = agent.stop();
            log_lines.extend(log.lines());
            if code != Some(0) {
                let death = format!("ended with {code:?} on SIGTERM");
                self.deaths
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(death);
            }
        } else {
            log_lines.extend(agent.kill());
        }
    }

    fn configure(&self, seconds: u64) {
        let text = format!(
            "excludedNamespaces: [{EXCLUDED}]\nladder: {{settle: {seconds}s, settleSignal: 15s}}\n"
        );
        self.node.configure(&text);
    }

    fn wipe(&self, files: &[&str]) {
        for file in files {
            // The file may not be written yet.
            drop(std::fs::remove_file(self.node.run_dir().join(file)));
        }
    }

    /// Waits until a mode applies; false if it does not in time.
    fn counts(&self, capability: &str, mode: &str) -> bool {
        let labels = format!("capability=\"{capability}\",mode=\"{mode}\"");
        let end = Instant::now() + SEEN;
        while Instant::now() < end {
            if self.with(|agent| agent.metric("usher_mode", &labels)) > 0.5 {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    fn annotated(
        &self,
        more: &[(&str, &str)],
        counted: (&str, &str),
        sure: impl FnOnce(),
        lasts: Duration,
    ) {
        self.server.annotate(&[&[ENFORCE], more].concat());
        if self.counts(counted.0, counted.1) {
            sure();
        }
        std::thread::sleep(lasts);
    }

    /// Starts a fault, and ends it.
    pub(crate) fn make(&self, planned: Planned, fault_log: &FaultLog) {
        std::thread::sleep(planned.after);
        let number = fault_log.begin(planned.fault);
        let sure = || fault_log.sure(number);
        let lasts = planned.lasts;
        let sleep = || std::thread::sleep(lasts);
        let kubelet = self.node.kubelet();
        let behave = |behaviour| {
            kubelet.behave(behaviour);
            sleep();
            kubelet.behave(Behaviour::Ok);
        };
        match planned.fault {
            Fault::Killed | Fault::WipedAndKilled => {
                self.end(|agent| agent.signal(Signal::SIGKILL), false);
                if planned.fault == Fault::WipedAndKilled {
                    self.wipe(&KEPT);
                }
                sleep();
                self.begin();
            }
            Fault::Restarted => {
                self.end(|_| (), true);
                sleep();
                self.begin();
            }
            Fault::Stopped => self.with(|agent| {
                agent.signal(Signal::SIGSTOP);
                sleep();
                agent.signal(Signal::SIGCONT);
            }),
            Fault::HolderKilled | Fault::HolderStopped => {
                let signal = if planned.fault == Fault::HolderKilled {
                    Signal::SIGKILL
                } else {
                    Signal::SIGSTOP
                };
                self.with(|agent| {
                    if let Some(holder) = agent.holder() {
                        holder.signal(signal);
                    }
                });
                sleep();
            }
            Fault::Wiped => {
                self.wipe(&KEPT);
                sleep();
            }
            Fault::SocketsWiped => {
                self.wipe(&SOCKETS);
                sleep();
            }
            Fault::BadConfiguration => {
                self.node
                    .configure("recipes: [{name: broken, recognize: []}]\n");
                sleep();
                self.configure(2);
            }
            Fault::Reconfigured => {
                self.configure(3);
                sleep();
            }
            Fault::Observes => self.annotated(
                &[("usher.dev/mode", "observe")],
                ("quit", "observe"),
                sure,
                lasts,
            ),
            Fault::ObservesQuit => self.annotated(
                &[("usher.dev/quit", "observe")],
                ("quit", "observe"),
                sure,
                lasts,
            ),
            Fault::ObservesHold => self.annotated(
                &[("usher.dev/hold", "observe")],
                ("hold", "observe"),
                sure,
                lasts,
            ),
            Fault::QuitOff => {
                self.annotated(&[("usher.dev/quit", "off")], ("quit", "off"), sure, lasts);
            }
            Fault::HoldOff => {
                self.annotated(&[("usher.dev/hold", "off")], ("hold", "off"), sure, lasts);
            }
            Fault::KubeletSays(status) => behave(Behaviour::Status(status)),
            Fault::KubeletGarbage => behave(Behaviour::TruncatedJson),
            Fault::KubeletSilent => behave(Behaviour::Silence),
            Fault::KubeletSlow => {
                kubelet.lag(Duration::from_secs(5));
                sleep();
                kubelet.lag(Duration::from_millis(500));
            }
            Fault::ApiAway => {
                self.server.away(true);
                self.server.end_watches(false);
                sleep();
                self.server.away(false);
            }
            Fault::WatchesEnd => {
                self.server.end_watches(true);
                sleep();
            }
            Fault::EventsRefused => {
                self.server.trouble(&[
                    Trouble::Lost,
                    Trouble::Status(429, Some(1)),
                    Trouble::Status(500, None),
                    Trouble::Lost,
                ]);
                sleep();
                self.server.trouble(&[]);
            }
        }
        if planned.fault.forbids_quits()
            || matches!(planned.fault, Fault::ObservesHold | Fault::HoldOff)
        {
            // The change follows the record of the end: until then no action is permitted.
            fault_log.end(number);
            self.server.annotate(&[ENFORCE]);
            let capability = if planned.fault.forbids_quits() {
                "quit"
            } else {
                "hold"
            };
            self.counts(capability, "enforce");
            return;
        }
        fault_log.end(number);
    }
}
