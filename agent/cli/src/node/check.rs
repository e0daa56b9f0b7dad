//! `usher check`: probes a node and its agent, in a network namespace of its own, and collects the facts.
//! [`usher_inspect::check`] judges them.

mod ask;
mod kernel;
mod place;

use clap::{Args as _, FromArgMatches};
use usher_client::{cni_args::CniArgs, install::settings::Settings, platform};
use usher_inspect::{
    check::{self, Checks},
    text::table::Table,
};

use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport},
    pod::explain::{self, Diagnosis},
};

/// Check whether this node has what usher needs, and whether its agent works
///
/// --pre checks the node only, before usher is installed or while its agent is
/// down. The checks change nothing: the features of hold are tested in a new
/// network namespace. Each problem comes with its consequence and the command or
/// chart value that fixes it; usher help CHECK describes each of them.
///
/// Run it as root, in the agent's container if there is one, since its privileges are those of the agent.
///
/// Exit codes: 0 if no check failed (a warning does not fail), 1 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check one pod instead of the node: the same as explain
    #[arg(conflicts_with = "pre")]
    pod: Option<String>,

    /// Only the node, not its agent
    #[arg(long)]
    pre: bool,

    /// Only failed checks and warnings
    #[arg(long)]
    problems: bool,

    /// Name of the Node, for its version from the API server
    #[arg(long, env = "NODE_NAME")]
    node_name: Option<String>,

    #[command(flatten)]
    cni: CniArgs,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if let Some(pod) = &args.pod {
        return explain::show(pod, global, Diagnosis::from).await;
    }
    if args.pre && global.file.is_some() {
        let text = "--pre checks the live node and cannot be used with --file";
        return Err(Failure::usage(text));
    }
    let source = DataSource::open_quietly(global).await?;
    let gathered = Box::pin(gather(&source, args));
    let checks = source.answer(None, gathered).await?;
    let exit = if checks.count.exit_code() == 0 {
        Exit::Success
    } else {
        Exit::Problem
    };
    let checks = if args.problems {
        checks.problems()
    } else {
        checks
    };
    Output::new(global).show(source.origin(), checks)?;
    Ok(exit)
}

impl Args {
    /// The defaults, with the environment variables.
    pub(crate) fn usual() -> Result<Self, Failure> {
        let command = Self::augment_args(clap::Command::default());
        let matches = command.try_get_matches_from(["check"]);
        let args = matches.and_then(|matches| Self::from_arg_matches(&matches));
        Ok(args?)
    }
}

impl SysdumpReport for Checks {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "check";
}

/// Runs all probes and requests.
pub(crate) async fn gather(source: &DataSource, args: &Args) -> Result<Checks, Failure> {
    // Without an answer, or with that of another version, the other checks still run.
    let status = match source.agent() {
        _ if args.pre => None,
        Ok(_agent) => Some(source.status().await),
        Err(failure) => Some(Err(failure)),
    };
    let settings = Settings::from_args(&place::given_or_known(&args.cni))
        .map_err(|error| Failure::usage(usher_client::error_chain::chain(&error)))?;
    let pods = ask::kubelet(&source.node).await;
    let mut checks = check::kernel::judge(&kernel::look(pods.seen).await);
    checks.extend(check::capability::judge(&kernel::privileges(&source.node)));
    checks.extend(check::node::judge(&place::node(&source.node)));
    let platform = platform::detect(&source.node.args.kubelet.host_root);
    let answer = status.as_ref().and_then(|status| status.as_ref().ok());
    let network = place::network(settings.as_ref(), answer, platform);
    checks.extend(check::cni::judge(network.as_ref()));
    checks.extend(check::kubelet::judge(&pods.found));
    let version = match &args.node_name {
        Some(name) => source.node.kubelet_version(name).await,
        None => None,
    };
    let cluster = pods.cluster(version);
    checks.extend(check::cluster::judge(cluster.as_ref()));
    if let Some(status) = status {
        let found = ask::agent(source, status, settings.as_ref()).await;
        checks.extend(check::agent::judge(&found));
    }
    Ok(checks.into())
}

impl Report for Checks {
    const KIND: &'static str = "Checks";

    fn table(&self, _wide: bool) -> Table {
        check::text(self)
    }
}
