//! The worker's main loop: receives jobs until the agent exits.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    process,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use nix::sys::{prctl, signal::Signal};
use tokio::runtime::Builder;
use usher_client::error_chain::chain;
use usher_core::{
    base::id::{NetnsId, Pid},
    quit::outcome::Outcome,
    worker::message::{CALLS, Job, JobId, LONGEST_MESSAGE, Order, QUERY, Reply},
};
use usher_sys::{
    net::netns::Netns, pods::proc::ProcRoot, process::priority, seqpacket::Connection,
};

use super::{
    lanes::{Kind, Lanes, NODE},
    replies::{Replies, forward},
    request::{self, Target},
    sandbox::Sandboxes,
    traffic::Traffic,
};
use crate::args::WorkerArgs;

/// One thread for each request, and one for each pod whose table is being changed or whose thread is stuck.
const THREADS: usize = NODE + 1024;
/// How long an idle thread stays. A new one takes longer to run.
const KEEP_THREADS: Duration = Duration::from_secs(60);
/// Virtual size; most pages stay unused.
const STACK: usize = 512 * 1024;

const NO_DESCRIPTORS: &str = "the worker process has no descriptors left";

struct Server {
    proc: ProcRoot,
    lanes: Lanes,
    sandboxes: Sandboxes,
    traffic: Traffic,
    replies: Replies,
}

/// Serves the agent at the other end of standard input until it exits.
#[expect(
    clippy::exit,
    reason = "the end of main would wait for threads that are stuck"
)]
pub(crate) fn run(args: &WorkerArgs) -> anyhow::Result<()> {
    // A stopped worker also ends with the agent.
    prctl::set_pdeathsig(Signal::SIGKILL).context("prctl(PR_SET_PDEATHSIG)")?;
    // The worker inherits the event loop's priority.
    priority::reset().context("resetting the priority")?;
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    let stdin = stdin.context("duplicating standard input")?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .max_blocking_threads(THREADS)
        .thread_keep_alive(KEEP_THREADS)
        .thread_stack_size(STACK)
        .thread_name("pod")
        .build()
        .context("starting the runtime")?;
    request::prepare();
    // In a task, because only the runtime's own threads can be replaced.
    let serving = runtime.spawn(serve(stdin, args.proc.clone()));
    runtime.block_on(serving).context("serving the agent")??;
    // Does not wait for stuck threads.
    process::exit(0)
}

async fn serve(stdin: OwnedFd, proc: PathBuf) -> anyhow::Result<()> {
    let agent = Connection::adopt(stdin).context("registering the socket to the agent")?;
    let (replies, waiting) = Replies::new();
    let lanes = Lanes::new(replies.clone());
    let proc = ProcRoot::new(proc);
    let mut server = Server {
        sandboxes: Sandboxes::new(lanes.clone(), replies.clone()),
        traffic: Traffic::new(proc.clone(), lanes.clone(), replies.clone()),
        proc,
        lanes,
        replies,
    };
    tokio::select! {
        () = forward(waiting, &agent) => Ok(()),
        received = server.receive(&agent) => received,
    }
}

impl Server {
    async fn receive(&mut self, agent: &Connection) -> anyhow::Result<()> {
        let mut buffer = vec![0; LONGEST_MESSAGE];
        loop {
            let received = agent.receive(&mut buffer).await;
            let Some((length, descriptors)) = received.context("receiving a job")? else {
                return Ok(());
            };
            match Order::decode(buffer.get(..length).unwrap_or_default()) {
                Ok(order) => self.execute(order, descriptors).await,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "received an invalid job from the agent");
                }
            }
        }
    }

    async fn execute(&mut self, order: Order, descriptors: Vec<OwnedFd>) {
        let Order { id, netns, job } = order;
        let mut descriptors = descriptors.into_iter();
        match job {
            // This job consists of the check only.
            Job::Check => {
                if let Some(netns) = namespace(netns, descriptors.next()) {
                    // The number of the namespace may be that of an earlier one.
                    self.lanes.lane(netns.id()).rules.clear();
                    self.run(netns, CALLS, |_netns| (), |_done| None);
                }
            }
            Job::Request {
                pid,
                request,
                timeout,
                prepared,
            } => {
                let (pidfd, place) = (descriptors.next(), descriptors.next());
                let (opened, socket) = match place {
                    Some(socket) if prepared => {
                        let opened = self.namespace_of(&socket, pid);
                        let opened = opened.filter(|opened| opened.id() == netns);
                        (opened, Some(socket))
                    }
                    other => (namespace(netns, other), None),
                };
                let (Some(pidfd), Some(netns)) = (pidfd, opened) else {
                    return self.fail(id).await;
                };
                let proc = self.proc.clone();
                let attempt = move |netns: &Netns| {
                    let target = Target { pidfd, netns };
                    target.attempt(&proc, pid, socket, &request, timeout)
                };
                self.run(netns, timeout, attempt, move |outcome| {
                    Some(attempted(id, outcome))
                });
            }
            Job::Query(request) => {
                let (Some(pidfd), Some(netns)) =
                    (descriptors.next(), namespace(netns, descriptors.next()))
                else {
                    let reply = Reply::Answered { id, version: None };
                    return self.replies.send(reply).await;
                };
                let query = move |netns: &Netns| Target { pidfd, netns }.query(&request);
                self.run(netns, QUERY, query, move |version| {
                    let version = version.flatten();
                    Some(Reply::Answered { id, version })
                });
            }
            Job::Signal {
                key,
                cgroup,
                process,
                signal,
            } => {
                let Some(init) = descriptors.next() else {
                    return self.fail(id).await;
                };
                let (proc, lane) = (self.proc.clone(), self.lanes.lane(netns));
                let (lanes, replies) = (self.lanes.clone(), self.replies.clone());
                let calls = move || request::signal(&proc, &init, &key, &cgroup, &process, signal);
                tokio::spawn(async move {
                    let outcome = lanes.run(&lane, Kind::Request, CALLS, calls).await;
                    replies.send(attempted(id, outcome)).await;
                });
            }
            Job::SampleTraffic {
                id: container,
                status_ports,
            } => match namespace(netns, descriptors.next()) {
                Some(netns) => self.traffic.sample(id, container, netns, status_ports),
                None => {
                    let sample = Err(NO_DESCRIPTORS.to_owned());
                    self.replies
                        .send(Reply::TrafficSampled { id, sample })
                        .await;
                }
            },
            Job::Arm { ref sandbox, .. }
            | Job::Adopt { ref sandbox }
            | Job::Probe { ref sandbox, .. }
            | Job::ReleasePorts { ref sandbox, .. }
            | Job::ReleaseAll { ref sandbox }
            | Job::Renew { ref sandbox, .. }
            | Job::Repair { ref sandbox, .. }
            | Job::Forget { ref sandbox, .. } => {
                let sandbox = sandbox.clone();
                let netns = namespace(netns, descriptors.next()).map(Arc::new);
                self.sandboxes.order(id, sandbox, job, netns).await;
            }
        }
    }

    /// Checks the rules of a namespace, then runs system calls that send packets there.
    fn run<T: Send + 'static>(
        &self,
        netns: Netns,
        limit: Duration,
        calls: impl FnOnce(&Netns) -> T + Send + 'static,
        reply: impl FnOnce(Option<T>) -> Option<Reply> + Send + 'static,
    ) {
        let (lanes, replies) = (self.lanes.clone(), self.replies.clone());
        let lane = lanes.lane(netns.id());
        tokio::spawn(async move {
            let checked = {
                let lane = Arc::clone(&lane);
                move || {
                    let _rules = lane.rules.check(&netns)?;
                    Ok(calls(&netns))
                }
            };
            let done = match lanes.run(&lane, Kind::Request, limit, checked).await {
                Some(Ok(done)) => Some(done),
                // The agent fails all jobs of the namespace after this reply.
                Some(Err(reason)) => return lanes.report_quarantine(lane.netns, reason).await,
                None => None,
            };
            if let Some(reply) = reply(done) {
                replies.send(reply).await;
            }
        });
    }

    /// The namespace of a prepared socket. Without `CAP_NET_ADMIN` the kernel does not return it. The namespace of the
    /// process has the same identity, which cannot be reused while the socket is open.
    fn namespace_of(&self, socket: &OwnedFd, pid: Pid) -> Option<Netns> {
        Netns::of_socket(socket)
            .or_else(|_| Netns::of_process(&self.proc, pid))
            .ok()
    }

    /// Fails an order without its descriptors: the process has none left.
    async fn fail(&self, id: JobId) {
        let outcome = Outcome::Failed(NO_DESCRIPTORS.to_owned());
        self.replies.send(Reply::Attempted { id, outcome }).await;
    }
}

/// The reply to an attempt. Without an outcome, the attempt timed out.
fn attempted(id: JobId, outcome: Option<Outcome>) -> Reply {
    let outcome = outcome.unwrap_or(Outcome::TimedOut);
    Reply::Attempted { id, outcome }
}

/// The namespace of an order, if the descriptor matches its id.
fn namespace(id: NetnsId, descriptor: Option<OwnedFd>) -> Option<Netns> {
    let netns = Netns::from_fd(descriptor?).ok()?;
    (netns.id() == id).then_some(netns)
}
