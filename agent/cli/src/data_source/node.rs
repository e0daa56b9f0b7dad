//! The node without the agent: cgroups, processes and the kubelet's list, evaluated by the same engine as in the agent. The
//! node is read once; nothing is watched and nothing is changed.

#[cfg(test)]
pub(crate) mod fixture;
mod survey;
mod target;

use std::{fs, io, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use tokio::sync::OnceCell;
use usher_client::{
    api_server, cleanup, error_chain::chain, kubelet::Kubelet, node_args::NodeArgs, run_dir,
    wall_clock,
};
use usher_core::{
    base::id::PodUid,
    decision::timeline::{self, Timeline},
    pod::list::{PodList, Selection},
    settings::config::Config,
};
use usher_inspect::pod_selector::Names;
use usher_sys::{net::netns::Netns, pods::proc::ProcRoot};

use self::survey::Documents;
pub(crate) use self::{survey::Survey, target::Target};
use crate::failure::Failure;

/// Timeout of the API server for the Node, of which only the kubelet's version is used.
const VERSION_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of the configuration that an agent saves while its file is valid.
pub(crate) const LAST_GOOD: &str = "last good configuration";

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) args: NodeArgs,
    pub(crate) proc: ProcRoot,
    /// A survey that all requests share.
    shared: Option<Arc<Survey>>,
    /// The time of that survey.
    at_ms: Option<u64>,
    /// The kubelet's version in the Node object, or that it is unavailable.
    kubelet_version: Arc<OnceCell<Option<String>>>,
}

impl Node {
    pub(crate) fn new(args: &NodeArgs) -> Self {
        Self {
            args: args.clone(),
            proc: ProcRoot::new(&args.proc),
            shared: None,
            at_ms: None,
            kubelet_version: Arc::default(),
        }
    }

    /// The kubelet's version in its Node object, which is requested once: during an outage of the API server, each
    /// explanation would otherwise wait for the timeout.
    pub(crate) async fn kubelet_version(&self, name: &str) -> Option<String> {
        let query = Box::pin(async {
            let nodes: Api<NodeObject> = Api::all(api_server::client().await.ok()?);
            let node = nodes.get(name).await.ok()?;
            Some(node.status?.node_info?.kubelet_version)
        });
        let request = || async {
            let replied = tokio::time::timeout(VERSION_TIMEOUT, query).await;
            replied.ok().flatten()
        };
        self.kubelet_version.get_or_init(request).await.clone()
    }

    /// Answers all requests from one survey: a sysdump reads many pods and must represent one moment.
    pub(crate) fn share(&mut self, survey: Arc<Survey>, at_ms: u64) {
        self.shared = Some(survey);
        self.at_ms = Some(at_ms);
    }

    /// Milliseconds since 1970-01-01T00:00:00Z: now, or the time of the shared survey.
    pub(crate) fn now_ms(&self) -> u64 {
        self.at_ms.unwrap_or_else(wall_clock::now_ms)
    }

    /// The shared survey, or a new one.
    pub(crate) async fn shared_survey(&self) -> Result<Arc<Survey>, Failure> {
        match &self.shared {
            Some(shared) => Ok(Arc::clone(shared)),
            None => self.survey().await.map(Arc::new),
        }
    }

    /// The kubelet's list of pods.
    async fn pods(&self, selection: Selection) -> Result<PodList, Failure> {
        Kubelet::new(&self.args.kubelet)
            .map_err(|error| Failure::unavailable(chain(&error)))?
            .pods(selection)
            .await
            .map_err(|error| Failure::unavailable(chain(&error)))
    }

    /// A pod as the kubelet lists it (`v1.Pod`, JSON); None if the kubelet does not list it, or if it is too large.
    pub(crate) async fn document(&self, uid: &PodUid) -> Result<Option<String>, Failure> {
        if let Some(shared) = &self.shared {
            return Ok(shared.documents.get(uid).cloned());
        }
        let selection = Selection {
            finished: Some([uid.clone()].into()),
            documents: [uid.clone()].into(),
            ..Selection::default()
        };
        let mut list = self.pods(selection).await?;
        Ok(list.documents.remove(uid))
    }

    /// Reads the node.
    ///
    /// # Errors
    /// Without a cgroup tree. A kubelet that does not answer is not an error: see [`Survey::listed`].
    pub(crate) async fn survey(&self) -> Result<Survey, Failure> {
        Survey::of(self, Documents::Without).await
    }

    /// Reads the node, and the pods with a cgroup as the kubelet lists them.
    pub(crate) async fn survey_with_documents(&self) -> Result<Survey, Failure> {
        Survey::of(self, Documents::With).await
    }

    /// Whether a network namespace is the node's own.
    pub(crate) fn is_own_network(&self, netns: &Netns) -> bool {
        cleanup::of_host(&self.proc) == Some(netns.id())
    }

    /// The effective configuration: the file, or the last good one.
    pub(crate) fn config(&self, gaps: &mut Vec<String>) -> Arc<Config> {
        let text = self.config_text().unwrap_or_else(|error| {
            gaps.push(error);
            None
        });
        let path = self.args.config.display().to_string();
        let config = Config::parse(&path, &text.unwrap_or_default()).unwrap_or_else(|error| {
            gaps.push(format!("{error}; using the {LAST_GOOD}"));
            self.last_good().0
        });
        Arc::new(config)
    }

    /// The text of the configuration file; None without the file.
    pub(crate) fn config_text(&self) -> Result<Option<String>, String> {
        let path = &self.args.config;
        match fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// The [`LAST_GOOD`] that an agent saved, or the defaults, and its text.
    pub(crate) fn last_good(&self) -> (Config, String) {
        let text = run_dir::load_text(&self.args.run_dir, run_dir::CONFIG);
        let text = text.ok().flatten().unwrap_or_default();
        let config = Config::parse(LAST_GOOD, &text).unwrap_or_default();
        (config, text)
    }

    /// The decisions in the timeline's file, sorted by pod, including pods that are gone.
    pub(crate) fn recorded(&self) -> Vec<timeline::Entry> {
        let text = run_dir::load_text(&self.args.run_dir, run_dir::TIMELINE);
        let mut all = Timeline::default();
        for line in text.ok().flatten().unwrap_or_default().lines() {
            // An agent that was killed may leave an incomplete line.
            drop(all.load(line));
        }
        all.entries().collect()
    }

    /// The pod that the argument selects.
    pub(crate) async fn find(&self, given: &str, names: Names) -> Result<Target, Failure> {
        match &self.shared {
            Some(shared) => shared.target(given, names),
            None => self.survey().await?.target(given, names),
        }
    }
}
