//! Where reports come from: the agent, the node itself when no agent answers, or a sysdump.

mod client;
mod dump;
pub(crate) mod node;

use usher_client::run_dir;
use usher_core::admin::{self, Origin, Pods, Status, Timeline};
use usher_inspect::text::printable::clean;

pub(crate) use self::{client::Client, dump::sha256};
use self::{dump::Dump, node::Node};
use crate::{
    failure::Failure,
    global::{Exit, Global},
    output::SysdumpReport,
    stderr::print_stderr,
};

#[derive(Debug)]
pub(crate) struct DataSource {
    pub(crate) node: Node,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Agent(Client),
    /// No agent answers, for this reason.
    Node(String),
    /// The sysdump of `--file`, which may be of another node.
    File(Dump),
}

impl DataSource {
    /// Connects to the agent, or falls back to the node itself and reports that.
    pub(crate) async fn open(global: &Global) -> Result<Self, Failure> {
        let source = Self::open_quietly(global).await?;
        match &source.kind {
            Kind::Agent(_) => {}
            Kind::Node(why) => print_stderr(&format!("{why}; reading the node instead")),
            Kind::File(dump) => print_stderr(&clean(&dump.described())),
        }
        Ok(source)
    }

    /// The same without reporting a fallback.
    pub(crate) async fn open_quietly(global: &Global) -> Result<Self, Failure> {
        let node = Node::new(&global.node);
        if let Some(path) = &global.file {
            let kind = Kind::File(Dump::open(path)?);
            return Ok(Self { node, kind });
        }
        let path = node.args.run_dir.join(run_dir::ADMIN_SOCKET);
        let kind = match Client::connect(&path).await {
            Ok(client) => Kind::Agent(client),
            Err(error) if error.exit == Exit::Unavailable => Kind::Node(error.text),
            Err(error) => return Err(error),
        };
        Ok(Self { node, kind })
    }

    /// The origin of the reports, as JSON output names it.
    pub(crate) const fn origin(&self) -> Origin {
        match self.kind {
            Kind::Agent(_) => Origin::Agent,
            Kind::Node(_) => Origin::Node,
            Kind::File(_) => Origin::File,
        }
    }

    /// The report of a command: from the sysdump of `--file`, or gathered now.
    pub(crate) async fn answer<T: SysdumpReport>(
        &self,
        pod: Option<&str>,
        gather: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match &self.kind {
            Kind::File(dump) => dump.report(T::NAME, pod),
            Kind::Agent(_) | Kind::Node(_) => gather.await,
        }
    }

    pub(crate) fn agent(&self) -> Result<&Client, Failure> {
        match &self.kind {
            Kind::Agent(client) => Ok(client),
            Kind::Node(why) => Err(Failure::unavailable(format!(
                "{why}; this needs the agent (check that it runs on this node: kubectl get pods -n usher -o wide)"
            ))),
            Kind::File(_) => Err(Failure::usage(
                "this needs the agent and does not support --file",
            )),
        }
    }

    pub(crate) async fn status(&self) -> Result<Status, Failure> {
        match &self.kind {
            Kind::Agent(client) => client.get("/v1/status").await,
            Kind::File(dump) => dump.report(Status::NAME, None),
            Kind::Node(_) => {
                let survey = self.node.survey().await?;
                let census = survey.engine().census();
                let mut status = Status {
                    modes: survey.reported_modes(),
                    pods: census.with(&survey.pods),
                    kubelet: admin::Kubelet {
                        listed_ms_ago: survey.listed.is_ok().then_some(0),
                        error: survey.listed.err().map(|failure| failure.text),
                    },
                    ..Status::default()
                };
                status.problems = status.judge();
                Ok(status)
            }
        }
    }

    pub(crate) async fn pods(&self) -> Result<Pods, Failure> {
        match &self.kind {
            Kind::Agent(client) => client.get("/v1/pods").await,
            Kind::File(dump) => dump.report(Pods::NAME, None),
            Kind::Node(_) => {
                let survey = self.node.survey().await?;
                for gap in &survey.gaps {
                    print_stderr(&clean(gap));
                }
                Ok(Pods { items: survey.pods })
            }
        }
    }

    pub(crate) async fn timeline(&self, uid: &str) -> Result<Timeline, Failure> {
        match &self.kind {
            Kind::Agent(client) => {
                let path = format!("/v1/pods/{uid}/timeline");
                client.get(&path).await
            }
            Kind::Node(_) => Ok(self.journal(uid)),
            Kind::File(dump) => dump.report(Timeline::NAME, Some(uid)),
        }
    }

    /// The timeline that an agent wrote before it ended.
    fn journal(&self, uid: &str) -> Timeline {
        let mut items = self.node.recorded();
        items.retain(|entry| entry.uid == uid);
        Timeline { items }
    }
}

impl SysdumpReport for Timeline {
    const KIND: &'static str = "Timeline";
    const NAME: &'static str = "timeline";
}
