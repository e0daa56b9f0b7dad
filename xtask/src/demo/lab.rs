//! Jobs on the cluster, watched by four programs that run since before: kubectl for Jobs, for pods and for the agent's
//! log, and `ctr events` in the node.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use usher_cluster::Cluster;

use super::{
    case::{APP, Case, NAMESPACE, Observed, Sample},
    read,
    stream::{Line, Stream},
};

use crate::cluster::{AGENT, AGENT_NAMESPACE};

/// Longer than anything takes that is to happen.
const LIMIT: Duration = Duration::from_secs(60);
/// How long after its app's end the observed Job is looked at: Jobs that complete do so within 3 or 4 s.
const WATCHED: Duration = Duration::from_secs(6);

#[derive(Debug)]
pub(super) struct Lab<'a> {
    cluster: &'a Cluster,
    agent: Stream,
    jobs: Stream,
    pods: Stream,
    containers: Stream,
}

/// A Job whose app has ended.
struct Ended {
    pod: String,
    sidecar: Option<String>,
    at: Timestamp,
}

impl<'a> Lab<'a> {
    pub(super) fn open(cluster: &'a Cluster) -> Result<Self> {
        let kubectl = |args: &[&str]| {
            let mut command = cluster.kubectl_command();
            command.args(args);
            command
        };
        let watch = |kind, format| kubectl(&["-n", NAMESPACE, "get", kind, "-w", "-o", format]);
        let logs = ["-n", AGENT_NAMESPACE, "logs", "--follow", AGENT];
        Ok(Self {
            cluster,
            agent: Stream::follow("the agent's log", &mut kubectl(&logs))?,
            jobs: Stream::follow("the watch of Jobs", &mut watch("jobs", read::JOB_FORMAT))?,
            pods: Stream::follow("the watch of pods", &mut watch("pods", read::POD_FORMAT))?,
            containers: Stream::follow(
                "containerd's events",
                cluster.node_command("ctr")?.arg("events"),
            )?,
        })
    }

    /// Runs the Job that does not complete, and looks at it for a while.
    pub(super) fn observe(&self, name: &str) -> Result<Observed> {
        self.cluster.apply(&Case::Observe.object(name, 0))?;
        let ended = self.app_ended(name)?;
        let would = self.agent.find(LIMIT, ended.decided("would-quit"))?;
        let so_far = since(ended.at, Timestamp::now());
        let complete = self
            .jobs
            .find(WATCHED.saturating_sub(so_far), completes(name))?;
        Ok(Observed {
            watched: since(ended.at, Timestamp::now()),
            completed: complete.is_some(),
            decided: would.as_ref().map(|would| since(ended.at, would.at)),
            reason: would.map(|would| would.reason),
        })
    }

    /// Lets usher act on the node, and returns how soon the Job is complete that hung there.
    pub(super) fn enforce(&self, hanging: &str) -> Result<Duration> {
        let node = self.cluster.node_name();
        let from = Timestamp::now();
        self.cluster
            .kubectl(&["annotate", "node", node, "usher.dev/mode=enforce"])?;
        let enforces = |line: &Line| read::enforces(&line.text).then_some(());
        let took = self.agent.find(LIMIT, enforces)?;
        took.context("usher did not take the Node's annotation")?;
        let complete = self.jobs.find(LIMIT, completes(hanging))?;
        let complete = complete.context("the Job hangs although usher enforces")?;
        Ok(since(from, complete))
    }

    /// Runs a Job to its completion.
    pub(super) fn run(&self, case: Case, turn: u32) -> Result<Sample> {
        let name = format!("{}-{turn}", case.name());
        self.cluster.apply(&case.object(&name, turn))?;
        let complete = self.jobs.find(LIMIT, completes(&name))?;
        let ended = self.app_ended(&name)?;
        let accepted = match case {
            Case::Enforce => self.agent.find(LIMIT, ended.decided("quit-accepted"))?,
            _ => None,
        };
        let sidecar_ended = match &ended.sidecar {
            Some(id) if complete.is_some() => self
                .containers
                .find(LIMIT, |line| read::container_exit(&line.text, id))?,
            _ => None,
        };
        Ok(Sample {
            accepted: accepted.map(|decision| since(ended.at, decision.at)),
            sidecar_ended: sidecar_ended.map(|at| since(ended.at, at)),
            complete: complete.map(|at| since(ended.at, at)),
        })
    }

    /// Waits until the API says that a Job's app has terminated.
    fn app_ended(&self, job: &str) -> Result<Ended> {
        let terminated = |line: &Line| {
            let pod = read::pod(&line.text)?;
            (pod.job == job && pod.app_terminated)
                .then(|| (pod.pod.to_owned(), pod.sidecar.map(str::to_owned)))
        };
        let found = self.pods.find(LIMIT, terminated)?;
        let (pod, sidecar) = found.with_context(|| format!("the app of Job {job} did not end"))?;
        let log = self
            .cluster
            .kubectl(&["-n", NAMESPACE, "logs", &pod, "-c", APP])?;
        let at = read::app_exit(&log)
            .with_context(|| format!("the app of pod {pod} did not say when it ended:\n{log}"))?;
        Ok(Ended { pod, sidecar, at })
    }
}

impl Ended {
    fn decided(&self, kind: &str) -> impl Fn(&Line) -> Option<read::Decision> {
        let pod = format!("{NAMESPACE}/{}", self.pod);
        move |line| read::decision(&line.text, kind, &pod)
    }
}

fn completes(job: &str) -> impl Fn(&Line) -> Option<Timestamp> {
    move |line| read::is_complete(&line.text, job).then_some(line.at)
}

/// None of these times is before the app's own end.
fn since(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}
