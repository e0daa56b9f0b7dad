//! Samples what clients send to the pods of apps with a held stop signal.
//!
//! The worker keeps a meter for each app between samples, with a netlink socket for the notifications of ended
//! sockets. It drops the meter when no sample is requested for a while, because the socket keeps the pod's namespace
//! alive. A sample sends no packet, so the pod's rules cannot delay it.

use std::{
    collections::HashMap,
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};
use usher_client::error_chain::chain;
use usher_core::{
    base::id::{ContainerId, NetnsId, Pid},
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
/// Connections that the meters of a pod keep between samples. A connection counts once for each app, because each has its
/// own meter.
const POD: usize = 8 * 1024;
/// Connections that all meters of the node keep. Beyond it each pod still has [`POD_FLOOR`], because an idle connection
/// that is not kept looks new in each sample. So the bound of the node is `NODE + POD_FLOOR * pods`: about 97,000
/// connections and less than 5 MiB with 250 pods.
const NODE: usize = 32 * 1024;
const POD_FLOOR: usize = 256;

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
    kept: Arc<Mutex<Kept>>,
}

/// Number of connections that all meters keep.
#[derive(Debug, Default)]
struct Kept {
    node: usize,
    /// By pod; none is 0.
    pods: HashMap<NetnsId, usize>,
}

/// One meter's part of [`Kept`].
#[derive(Debug)]
struct Share {
    netns: NetnsId,
    count: usize,
    all: Arc<Mutex<Kept>>,
}

/// The sockets of one app's pod.
#[derive(Debug)]
struct App {
    sockets: Sockets,
    ended: EndedSockets,
    meter: Meter,
    share: Share,
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
                kept: Arc::default(),
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
                None => App::open(&netns, &node)?,
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
    fn open(netns: &Netns, node: &Node) -> Result<Self, Error> {
        let pid = Pid(process::id().cast_signed());
        let own = Netns::of_process(&node.proc, pid)?;
        let addresses = Links::open(&own)?.addresses()?;
        // Opened before the first list, so that no ended socket is missed.
        let ended = EndedSockets::open(netns)?;
        Ok(Self {
            sockets: Sockets::open(netns)?,
            ended,
            meter: Meter::new(addresses),
            share: Share::new(netns.id(), Arc::clone(&node.kept)),
        })
    }

    fn sample(&mut self, status_ports: &[u16]) -> Result<Sample, Error> {
        let Self { meter, share, .. } = self;
        meter.begin(status_ports);
        self.sockets
            .listeners(|socket| meter.add_listener(&socket))?;
        let is_incomplete = self.ended.read(|socket| meter.add_ended(&socket))?;
        self.sockets
            .connections(|socket| meter.add_open(&socket, || share.add()))?;
        let sample = meter.end(is_incomplete);
        share.reduce_to(meter.known());
        Ok(sample)
    }
}

impl Kept {
    /// Counts one more connection of a pod, if there is room for it.
    fn add(&mut self, netns: NetnsId) -> bool {
        let pod = self.pods.entry(netns).or_default();
        let has_room = *pod < POD_FLOOR || *pod < POD && self.node < NODE;
        if has_room {
            *pod += 1;
            self.node += 1;
        }
        has_room
    }

    fn remove(&mut self, netns: NetnsId, count: usize) {
        let Some(pod) = self.pods.get_mut(&netns) else {
            return;
        };
        *pod -= count;
        self.node -= count;
        if *pod == 0 {
            self.pods.remove(&netns);
        }
    }
}

impl Share {
    fn new(netns: NetnsId, all: Arc<Mutex<Kept>>) -> Self {
        Self {
            netns,
            count: 0,
            all,
        }
    }

    /// Counts one more connection, if there is room for it.
    fn add(&mut self) -> bool {
        let has_room = self.kept().add(self.netns);
        self.count += usize::from(has_room);
        has_room
    }

    /// Removes the connections that the meter has dropped.
    fn reduce_to(&mut self, count: usize) {
        let dropped = self.count.saturating_sub(count);
        self.count -= dropped;
        self.kept().remove(self.netns, dropped);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.reduce_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Meters(Arc<Mutex<Kept>>);

    impl Meters {
        /// A meter of a pod, which tries to keep more connections than the limit.
        fn busy(&self, pod: u64) -> Share {
            let mut share = self.idle(pod);
            for _ in 0..=POD {
                share.add();
            }
            share
        }

        fn idle(&self, pod: u64) -> Share {
            Share::new(NetnsId { dev: 1, ino: pod }, Arc::clone(&self.0))
        }

        fn node(&self) -> usize {
            self.0.lock().unwrap().node
        }

        /// As many pods as fill the node, with one app each.
        fn full() -> (Self, Vec<Share>) {
            let meters = Self::default();
            let pods = (0..(NODE / POD) as u64).map(|pod| meters.busy(pod));
            let pods = pods.collect();
            assert_eq!(meters.node(), NODE);
            (meters, pods)
        }
    }

    #[test]
    fn apps_of_a_pod_share_its_limit() {
        let meters = Meters::default();
        let mut apps: Vec<Share> = (0..8).map(|_app| meters.busy(1)).collect();
        assert_eq!(apps.iter().map(|app| app.count).sum::<usize>(), POD);
        assert_eq!(meters.node(), POD);
        assert_eq!(meters.busy(2).count, POD);

        // What one of them drops, another one can keep.
        apps[0].reduce_to(POD - 1);
        assert!(apps[7].add() && !apps[6].add());
    }

    /// The bound of the node: each pod has its floor beyond the limit, and no more.
    #[test]
    fn full_node_leaves_each_pod_its_floor() {
        let (meters, _pods) = Meters::full();
        let others: Vec<Share> = (100..350).map(|pod| meters.busy(pod)).collect();
        assert!(others.iter().all(|app| app.count == POD_FLOOR));
        // The apps of a pod share its floor as well.
        assert_eq!(meters.busy(100).count, 0);
        assert_eq!(meters.node(), NODE + 250 * POD_FLOOR);
    }

    #[test]
    fn dropped_meters_leave_room() {
        let (meters, mut pods) = Meters::full();
        pods.pop();
        assert_eq!(meters.busy(100).count, POD);
        pods.clear();
        assert_eq!(meters.node(), 0);
        assert!(meters.0.lock().unwrap().pods.is_empty());
    }
}
