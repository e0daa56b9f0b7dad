//! Samples what clients send to the pods of apps with a held stop signal.
//!
//! The worker keeps a meter for each app between samples, with a netlink socket for the notifications of ended
//! sockets. It drops the meter when no sample is requested for a while, because the socket keeps the pod's namespace
//! alive. A sample sends no packet, so the pod's rules cannot delay it.

use std::{
    collections::HashMap,
    mem, process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};
use usher_client::error_chain::chain;
use usher_core::{
    base::id::{ContainerId, Pid},
    linger::pre_stop::traffic::{Meter, Sample},
    worker::message::{JobId, Reply, SAMPLE},
};
use usher_sys::{
    net::{
        link::{self, Links},
        netns::{self, Netns},
        sockdiag::{self, EndedSockets, Sockets},
    },
    pods::proc::ProcRoot,
};

use super::{
    lanes::{Kind, Lanes},
    replies::Replies,
};

/// A meter without a request for this long is dropped. The agent requests two samples a second.
const IDLE: Duration = Duration::from_secs(5);
/// Connections that one meter keeps between samples, and the limit for all meters of the node.
const APP: usize = 4096;
const NODE: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct Traffic {
    apps: HashMap<ContainerId, UnboundedSender<Request>>,
    node: Node,
    lanes: Lanes,
    replies: Replies,
}

#[derive(Debug)]
struct Request {
    id: JobId,
    netns: Netns,
    status_ports: Vec<u16>,
}

/// State that the meters share.
#[derive(Debug, Clone)]
struct Node {
    proc: ProcRoot,
    /// Number of connections that all meters keep.
    known: Arc<AtomicUsize>,
}

/// The sockets of one app's pod.
#[derive(Debug)]
struct App {
    sockets: Sockets,
    ended: EndedSockets,
    meter: Meter,
    /// This meter's part of [`Node::known`].
    known: usize,
    node: Node,
}

/// A sample could not be made.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("opening the node's own network namespace")]
    OwnNamespace(#[from] netns::Error),
    #[error("listing the addresses of the node")]
    Addresses(#[from] link::Error),
    #[error("reading the sockets of the pod")]
    Sockets(#[from] sockdiag::Error),
}

impl Traffic {
    pub(super) fn new(proc: ProcRoot, lanes: Lanes, replies: Replies) -> Self {
        Self {
            apps: HashMap::new(),
            node: Node {
                proc,
                known: Arc::default(),
            },
            lanes,
            replies,
        }
    }

    /// Samples the traffic of an app. The first sample only starts the measurement.
    pub(super) fn sample(
        &mut self,
        id: JobId,
        app: ContainerId,
        netns: Netns,
        status_ports: Vec<u16>,
    ) {
        self.apps.retain(|_app, requests| !requests.is_closed());
        let requests = self.apps.entry(app).or_insert_with(|| {
            let (requests, receiver) = unbounded_channel();
            let (lanes, replies) = (self.lanes.clone(), self.replies.clone());
            tokio::spawn(run(receiver, self.node.clone(), lanes, replies));
            requests
        });
        let request = Request {
            id,
            netns,
            status_ports,
        };
        // Fails only when the task has panicked; the job then reaches the agent's deadline.
        drop(requests.send(request));
    }
}

/// Takes the samples of one app in sequence.
async fn run(mut requests: UnboundedReceiver<Request>, node: Node, lanes: Lanes, replies: Replies) {
    let mut app = None;
    while let Some(request) = next(&mut requests).await {
        let Request {
            id,
            netns,
            status_ports,
        } = request;
        let lane = lanes.lane(netns.id());
        let (node, kept) = (node.clone(), app.take());
        let calls = move || -> Result<(App, Sample), Error> {
            let mut app = match kept {
                Some(app) => app,
                None => App::open(&netns, node)?,
            };
            let sample = app.sample(&status_ports)?;
            Ok((app, sample))
        };
        let sample = match lanes.run(&lane, Kind::Request, SAMPLE, calls).await {
            Some(Ok((kept, sample))) => {
                app = Some(kept);
                Ok(sample)
            }
            Some(Err(error)) => Err(chain(&error)),
            None => Err("the kernel did not list the sockets in time".to_owned()),
        };
        replies.send(Reply::TrafficSampled { id, sample }).await;
    }
}

/// The next request; None after the idle time.
async fn next(requests: &mut UnboundedReceiver<Request>) -> Option<Request> {
    if let Ok(request) = timeout(IDLE, requests.recv()).await {
        return request;
    }
    requests.close();
    // A request may have arrived just before the close.
    requests.try_recv().ok()
}

impl App {
    fn open(netns: &Netns, node: Node) -> Result<Self, Error> {
        let pid = Pid(process::id().cast_signed());
        let own = Netns::of_process(&node.proc, pid)?;
        let addresses = Links::open(&own)?.addresses()?;
        // Opened before the first list, so that no ended socket is missed.
        let ended = EndedSockets::open(netns)?;
        Ok(Self {
            sockets: Sockets::open(netns)?,
            ended,
            meter: Meter::new(addresses),
            known: 0,
            node,
        })
    }

    fn sample(&mut self, status_ports: &[u16]) -> Result<Sample, Error> {
        let meter = &mut self.meter;
        meter.begin(status_ports);
        self.sockets
            .listeners(|socket| meter.add_listener(&socket))?;
        let is_incomplete = self.ended.read(|socket| meter.add_ended(&socket))?;
        let others = self.node.known.load(Ordering::Relaxed);
        let others = others.saturating_sub(self.known);
        let room = APP.min(NODE.saturating_sub(others));
        self.sockets
            .connections(|socket| meter.add_open(&socket, room))?;
        let sample = meter.end(is_incomplete);
        let before = mem::replace(&mut self.known, self.meter.known());
        self.node.known.fetch_add(self.known, Ordering::Relaxed);
        self.node.known.fetch_sub(before, Ordering::Relaxed);
        Ok(sample)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.node.known.fetch_sub(self.known, Ordering::Relaxed);
    }
}
