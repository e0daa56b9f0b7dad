//! The measured nodes: one with the agent, and one without usher with wrappers.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use usher_tests::synthetic::{Agent, PodSpec};

use crate::crowd::{Crowd, SIDECAR, latency};
use crate::path::{Watcher, Way};
use crate::trace::Trace;

/// Two nodes with as many pods each.
pub(crate) struct Rig {
    // Dropped before the pods and the node that it observes.
    agent: Agent,
    watched: Crowd,
    wrapped: Crowd,
}

impl Rig {
    /// Two nodes with this many pods each.
    pub(crate) fn new(size: usize) -> Self {
        let watched = Crowd::new(size, PodSpec::job);
        // On a node, connections are held for the first seconds of a pod only, and the worker probes meanwhile.
        let modes = [("usher.dev/quit", "enforce"), ("usher.dev/hold", "off")];
        watched.node.annotate(&modes);
        let mut rig = Self {
            agent: Agent::start(&watched.node),
            watched,
            wrapped: Crowd::new(size, PodSpec::wrapped_job),
        };
        rig.refill();
        rig
    }

    /// Fills the crowds again, and waits until the agent knows them.
    pub(crate) fn refill(&mut self) {
        self.watched.refill();
        self.wrapped.refill();
        self.watched.settle(&self.agent);
    }

    /// One exit of an app with a sidecar that the agent terminates.
    pub(crate) fn agent_exit(&mut self) -> Duration {
        exit(&mut self.watched)
    }

    /// The paths of one exit of either kind, if the trace is complete.
    pub(crate) fn ways(&mut self, trace: &mut Trace) -> io::Result<[Option<Way>; 2]> {
        let agent = Watcher {
            threads: threads(self.agent.pid()),
            worker: threads(self.agent.worker()),
        };
        let watched = way(&mut self.watched, trace, |_app| agent)?;
        let wrapped = way(&mut self.wrapped, trace, |wrapper| Watcher {
            threads: BTreeSet::from([wrapper]),
            ..Watcher::default()
        })?;
        Ok([watched, wrapped])
    }

    pub(crate) fn wrapper_exit(&mut self) -> Duration {
        exit(&mut self.wrapped)
    }
}

/// Threads of a process, which identify it in a trace.
fn threads(pid: u32) -> BTreeSet<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn way(
    crowd: &mut Crowd,
    trace: &mut Trace,
    watcher: impl FnOnce(i32) -> Watcher,
) -> io::Result<Option<Way>> {
    let pod = crowd.pods.pop_front().expect("the crowd is whole");
    let watcher = watcher(pod.pid("app"));
    let (request, marks) = trace.of(|| {
        pod.finish("app", 0);
        pod.request(SIDECAR)
    })?;
    pod.ended(SIDECAR);
    let ended = pod.ended("app").exit_ns().expect("the app stamps its exit");
    let [ended, request] = [ended, request.at_ns].map(Duration::from_nanos);
    Ok(Way::of(&marks, ended, request, &watcher))
}

fn exit(crowd: &mut Crowd) -> Duration {
    let pod = crowd.pods.pop_front().expect("the crowd is whole");
    pod.finish("app", 0);
    latency(&pod)
}
