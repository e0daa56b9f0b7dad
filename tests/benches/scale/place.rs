//! The node with the agent and an API server, and the requests to both.

use usher_tests::synthetic::{Agent, ApiServer, PodSpec};

use crate::crowd::Crowd;

pub(crate) struct Place {
    // Dropped before everything that it observes.
    pub(crate) agent: Agent,
    pub(crate) crowd: Crowd,
    pub(crate) api: ApiServer,
}

/// Requests so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Requests {
    /// Pod lists from the kubelet.
    pub(crate) kubelet: f64,
    /// New watches at the API server.
    pub(crate) watches: f64,
    /// Other requests to it.
    pub(crate) api: f64,
    /// The Events among them, created or patched.
    pub(crate) events: f64,
    /// Bytes in request bodies.
    pub(crate) bytes: f64,
}

impl Place {
    pub(crate) fn new(size: usize) -> Self {
        let api = ApiServer::start();
        api.annotate(&[("usher.dev/mode", "enforce")]);
        let crowd = Crowd::new(size, PodSpec::job);
        Self {
            agent: Agent::start_with_api(&crowd.node, &api, &[]),
            crowd,
            api,
        }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Requests {
        let mut sum = Requests {
            kubelet: count(self.crowd.node.kubelet().requests()),
            ..Requests::default()
        };
        for request in self.api.requests() {
            let right = request.right();
            if right.starts_with("watch ") {
                sum.watches += 1.0;
                continue;
            }
            sum.api += 1.0;
            sum.bytes += count(request.body.to_string().len());
            if right.ends_with(" events") {
                sum.events += 1.0;
            }
        }
        sum
    }
}

impl Requests {
    /// The requests since then.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            kubelet: self.kubelet - before.kubelet,
            watches: self.watches - before.watches,
            api: self.api - before.api,
            events: self.events - before.events,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// A small count.
pub(crate) fn count(things: usize) -> f64 {
    f64::from(u32::try_from(things).expect("a small number"))
}
