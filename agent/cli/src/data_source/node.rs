//! The node without the agent: cgroups, processes and the kubelet's list, put together by the same core that the agent
//! decides with. Nothing is watched and nothing is changed.

#[cfg(test)]
pub(crate) mod scene;
mod survey;
mod target;

use std::{sync::Arc, time::SystemTime};

use hyper::body::Bytes;
use usher_client::{error_chain::chain, kubelet::Kubelet, node_args::NodeArgs};
use usher_core::settings::config::Config;
use usher_sys::pods::proc::ProcRoot;

pub(crate) use self::{survey::Survey, target::Target};
use crate::failure::Failure;

/// The node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) args: NodeArgs,
    pub(crate) proc: ProcRoot,
    /// A look that counts for all questions.
    kept: Option<Arc<Survey>>,
    /// When that look was.
    at_ms: Option<u64>,
}

impl Node {
    pub(crate) fn new(args: &NodeArgs) -> Self {
        Self {
            args: args.clone(),
            proc: ProcRoot::new(&args.proc),
            kept: None,
            at_ms: None,
        }
    }

    /// Has all questions about pods answered from one look: a dump is of one moment, and asks for each pod.
    pub(crate) fn keep(&mut self, survey: Arc<Survey>, at_ms: u64) {
        self.kept = Some(survey);
        self.at_ms = Some(at_ms);
    }

    /// Milliseconds since 1970-01-01T00:00:00Z: now, or when the look was that counts.
    pub(crate) fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        self.at_ms.unwrap_or(now)
    }

    /// The look that counts, or a new one.
    ///
    /// # Errors
    /// As [`Self::survey`].
    pub(crate) async fn shared_survey(&self) -> Result<Arc<Survey>, Failure> {
        match &self.kept {
            Some(kept) => Ok(Arc::clone(kept)),
            None => self.survey().await.map(Arc::new),
        }
    }

    /// The kubelet's list of pods, as it writes it (`v1.PodList`, JSON).
    ///
    /// # Errors
    /// When the kubelet cannot be asked, with what to do.
    pub(crate) async fn raw_pods(&self) -> Result<Bytes, Failure> {
        if let Some(kept) = &self.kept {
            return kept.kubelet.clone();
        }
        let kubelet = Kubelet::new(&self.args.kubelet);
        let kubelet = kubelet.map_err(|error| Failure::unavailable(chain(&error)))?;
        let answer = kubelet.raw().await;
        answer.map_err(|error| Failure::unavailable(chain(&error)))
    }

    /// Everything that one look shows.
    ///
    /// # Errors
    /// When there is no cgroup tree to look at. A kubelet that does not answer is no error: see [`Survey::kubelet`].
    pub(crate) async fn survey(&self) -> Result<Survey, Failure> {
        Survey::of(self).await
    }

    /// The configuration that counts: the file, else the last good one.
    pub(crate) fn config(&self, gaps: &mut Vec<String>) -> Arc<Config> {
        survey::config(self, gaps)
    }

    /// The pod that is meant by a name, UID, container id, pid, IP or a part of its name.
    ///
    /// # Errors
    /// When it is none or several, or cannot be looked at.
    pub(crate) async fn find(&self, given: &str) -> Result<Target, Failure> {
        match &self.kept {
            Some(kept) => kept.target(given),
            None => self.survey().await?.target(given),
        }
    }
}
