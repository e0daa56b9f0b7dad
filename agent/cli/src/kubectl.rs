//! `kubectl usher`: runs `usher` in the agent on the node of a pod.
//!
//! The command line is that of `usher`, with flags for the cluster. It is parsed here, so that errors in it and `--help`
//! need no cluster; the agent receives the words again, with the full name of the pod. Commands run by the API server's
//! `exec`, over a WebSocket, and keep their exit codes. Files of `-w` and `--data @FILE` are files of this machine.
//!
//! | module | what |
//! | --- | --- |
//! | `agent` | the agents of the cluster, and the one that a command needs |
//! | `cluster` | requests to the API server, and the rights that they need |
//! | `exec` | one command in one agent: streams and exit code |
//! | `fleet` | one command in the agents of all nodes |
//! | `redirect` | files of this machine instead of files of the agent |

mod agent;
mod cluster;
mod exec;
mod fleet;
mod redirect;

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

use clap::{ArgMatches, FromArgMatches};
use usher_inspect::pod_selector::Names;

use self::{agent::Agent, cluster::Cluster, redirect::Redirect};
use crate::{
    failure::Failure,
    global::{
        Global,
        command_line::{CommandLine, qualified},
    },
    output::Output,
};

/// The exit code of a command.
type Code = u8;

/// Commands that `--all-nodes` supports.
const OF_ALL_NODES: [&str; 6] = ["status", "check", "pods", "stuck", "report", "sysdump"];
/// Commands that change a pod, as `rules --fix` does. A part of a name may match another pod than intended.
const OPERATE: [&str; 3] = ["quit", "hold", "release"];
/// Commands that accept `-n` without a pod.
const FILTERED_BY_NAMESPACE: [&str; 4] = ["pods", "stuck", "report", "watch"];

/// Inspect and operate the pods of a cluster with usher, from anywhere
///
/// Runs a command of usher in the agent on the pod's node: kubectl usher explain
/// -n shop report. The name may be a part of a name that only one pod has. Exit
/// codes are those of usher. -w FILE writes a file on this machine.
///
/// A command without a pod needs --node, or --all-nodes (status, check, pods, stuck, report, sysdump); in a cluster with
/// one agent neither is needed. --all-nodes exits with the highest exit code of all nodes; report adds up the nodes. A
/// pod that was deleted, or another selector than a name, needs --node.
///
/// Needs the rights to get and list pods, and to get and create pods/exec in the namespace of the agents.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Kubeconfig file [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig file
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,

    /// Namespace of the agents [default: any, found by the labels of the chart]
    #[arg(long, global = true, value_name = "NAMESPACE")]
    usher_namespace: Option<String>,

    /// Run the command on this node
    // Not named "node": that is the group of the node's flags.
    #[arg(id = "cluster_node", long = "node", global = true, value_name = "NODE")]
    node: Option<String>,

    /// Run the command on every node that has an agent
    #[arg(long, global = true)]
    all_nodes: bool,
}

impl ClusterArgs {
    const IDS: [&str; 5] = [
        "kubeconfig",
        "context",
        "usher_namespace",
        "cluster_node",
        "all_nodes",
    ];
}

/// Runs the `kubectl-usher` program.
pub fn run() -> ExitCode {
    let matches = full_command().get_matches();
    let needs_no_cluster =
        matches.contains_id("file") || matches.subcommand_matches("help").is_some();
    if !needs_no_cluster {
        return crate::block_on(answer(&matches));
    }
    // The command starts a runtime, and a runtime cannot start within another one.
    match crate::args(&matches) {
        Ok(args) => args.run(),
        Err(error) => Failure::from(error).report().into(),
    }
}

/// The flags of the program, without the subcommands, which are those of `usher`.
pub fn command() -> clap::Command {
    <ClusterArgs as clap::Args>::augment_args(clap::Command::default())
        .name("kubectl-usher")
        .bin_name("kubectl usher")
        .override_usage("kubectl usher [OPTIONS] <COMMAND OF usher> [ARGUMENTS]")
}

fn full_command() -> clap::Command {
    <ClusterArgs as clap::Args>::augment_args(crate::command())
        .name("kubectl-usher")
        .bin_name("kubectl usher")
}

#[derive(Debug)]
struct Request {
    cluster: ClusterArgs,
    line: CommandLine,
    namespace: Option<String>,
}

impl Request {
    fn parse(matches: &ArgMatches) -> Result<Self, Failure> {
        let cluster = ClusterArgs::from_arg_matches(matches)?;
        let line = CommandLine::new(&full_command(), matches);
        let mut line = line.ok_or_else(|| Failure::usage("no command"))?;
        ClusterArgs::IDS.iter().for_each(|id| line.remove(id));
        let namespace = matches.get_one::<String>("namespace").cloned();
        line.remove("namespace");
        let request = Self {
            cluster,
            line,
            namespace,
        };
        request.check().map_err(Failure::usage)?;
        Ok(request)
    }

    /// Rejects combinations that cannot work.
    fn check(&self) -> Result<(), String> {
        let name = &self.line.subcommand[..];
        let ClusterArgs {
            node, all_nodes, ..
        } = &self.cluster;
        if name == "completion" || name == crate::completion::COMPLETE {
            return Err("completion is a command of usher only".to_owned());
        }
        if *all_nodes && node.is_some() {
            return Err("--node and --all-nodes exclude each other".to_owned());
        }
        if *all_nodes && !OF_ALL_NODES.contains(&name) {
            let names = OF_ALL_NODES.join(", ");
            return Err(format!("--all-nodes supports only: {names}"));
        }
        if *all_nodes && name == "check" && self.line.pods().next().is_some() {
            return Err(
                "check POD runs on the pod's node and does not support --all-nodes".to_owned(),
            );
        }
        if *all_nodes && self.line.has("write") {
            return Err(
                "--all-nodes writes one file for each node and does not support -w".to_owned(),
            );
        }
        if self.line.has("directory") {
            return Err("--directory is a directory of the agent; use -w FILE".to_owned());
        }
        Ok(())
    }

    /// Completes the command line for the agents, once the pods have their full names.
    fn finish(mut self, colours: bool) -> CommandLine {
        let is_filter = FILTERED_BY_NAMESPACE.contains(&&self.line.subcommand[..])
            && self.line.pods().next().is_none();
        if let Some(namespace) = self.namespace.take().filter(|_| is_filter) {
            self.line.set("namespace", "--namespace", namespace);
        }
        if colours && !self.line.has("color") {
            // The agent writes to a pipe, even if this program writes to a terminal.
            self.line.set("color", "--color", "always");
        }
        self.line
    }
}

async fn answer(matches: &ArgMatches) -> Result<Code, Failure> {
    let mut request = Request::parse(matches)?;
    let cluster = Cluster::connect(&request.cluster).await?;
    let is_terminal = io::stdout().is_terminal();
    let colours = is_terminal && std::env::var_os("NO_COLOR").is_none();
    if request.cluster.all_nodes {
        if let Some(namespace) = &request.namespace {
            let qualified = request.line.qualify(namespace);
            qualified.map_err(Failure::usage)?;
        }
        let agents = cluster.agents(None).await?;
        let agents = agent::of_all_nodes(&agents)?;
        let global = Global::from_arg_matches(matches)?;
        let output = Output::new(&global);
        return fleet::run(&cluster, agents, request.finish(colours), output).await;
    }
    let agent = locate(&cluster, &mut request).await?;
    let mut line = request.finish(colours);
    let redirect = Redirect::take(&mut line, is_terminal)?;
    let words = redirect::words(line)?;
    let file = redirect.file();
    let streams = redirect.open()?;
    let ran = exec::run(&cluster, &agent, words, streams).await;
    if let Some((file, content)) = file {
        redirect::remove_useless(&file, content, &ran);
    }
    ran
}

/// Finds the agent that the command needs. Replaces the pods of the command by their full names.
async fn locate(cluster: &Cluster, request: &mut Request) -> Result<Agent, Failure> {
    let pods: Vec<String> = request.line.pods().map(str::to_owned).collect();
    let namespace = request.namespace.as_deref();
    let changes = OPERATE.contains(&&request.line.subcommand[..]) || request.line.has("fix");
    if let Some(node) = request.cluster.node.clone() {
        if let Some(namespace) = namespace {
            let qualified = request.line.qualify(namespace);
            qualified.map_err(Failure::usage)?;
        } else if changes {
            // On that node a pod of another namespace may have this name.
            request.line.qualify_names(cluster.default_namespace());
        }
        return agent::on_node(cluster.agents(Some(&node)).await?, &node);
    }
    if pods.is_empty() {
        return agent::only(cluster.agents(None).await?);
    }
    let names = if changes { Names::Whole } else { Names::Parts };
    let is_watch = request.line.subcommand == "watch";
    let mut found: Vec<(String, String)> = Vec::new();
    for pod in &pods {
        let (name, node) = node_of(cluster, pod, namespace, names).await?;
        // A part of a name also matches pods that start later.
        let name = match is_watch {
            true => with_namespace(cluster, pod, namespace).map_err(Failure::usage)?,
            false => name,
        };
        found.push((name, node));
    }
    let (names, mut nodes): (Vec<String>, Vec<String>) = found.into_iter().unzip();
    request.line.set_pods(names);
    nodes.sort_unstable();
    nodes.dedup();
    match &nodes[..] {
        [node] => agent::on_node(cluster.agents(Some(node)).await?, node),
        nodes => {
            let nodes = nodes.join(", ");
            let text =
                format!("the pods are on several nodes: {nodes}; use one command for each node");
            Err(Failure::usage(text))
        }
    }
}

/// The full name of a pod, and its node.
async fn node_of(
    cluster: &Cluster,
    given: &str,
    namespace: Option<&str>,
    names: Names,
) -> Result<(String, String), Failure> {
    let full = with_namespace(cluster, given, namespace).map_err(Failure::usage)?;
    let parts = full.split_once('/').filter(|(namespace, name)| {
        [namespace, name]
            .into_iter()
            .all(|part| agent::is_name(part))
    });
    let (namespace, name) = parts.ok_or_else(|| {
        Failure::usage(format!(
            "{given:?} is not the name of a pod; the API server finds pods by name only, so add --node NODE"
        ))
    })?;
    let pod = cluster.pod(namespace, name, names).await?;
    agent::node_of(&pod)
}

/// A selector with its namespace, else that of `-n`, else that of the context.
fn with_namespace(
    cluster: &Cluster,
    given: &str,
    namespace: Option<&str>,
) -> Result<String, String> {
    match (given.split_once('/'), namespace) {
        (Some(_), None) => Ok(given.to_owned()),
        _ => qualified(given, namespace.or(Some(cluster.default_namespace()))),
    }
}
