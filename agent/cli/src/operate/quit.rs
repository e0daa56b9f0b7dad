//! `usher quit`: terminates the sidecars of a finished pod.

mod wait;

use std::time::Duration;

use usher_core::{
    admin::{OperatorReply, RequestOptions},
    base::duration,
};

use super::operator_request::{self, OperatorClient, show};
use crate::{
    failure::Failure,
    global::{Exit, Global},
};

/// Terminate the sidecars of a finished pod now
///
/// The agent runs the same steps as for an automatic quit. The request overrides the node's mode, usher.dev/quit and
/// delays. The agent refuses while an app container runs or may be restarted, and when the only step left would turn a
/// succeeded pod into a failed one. --force overrides the refusal, and the timeline records it. Only sidecars that run
/// now are terminated; one that is restarted later is not.
///
/// The command returns when the decision is made. --wait waits until the sidecars have ended. Exits with 3 when the
/// request is refused, and with 1 when --wait times out or the agent gives up.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    request: operator_request::RequestArgs,

    /// Terminate even while an app runs, and even if the pod fails because of it
    #[arg(long)]
    force: bool,

    /// Wait until the sidecars have ended, at most for TIME (1m without a value)
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "1m", value_parser = duration::parse, conflicts_with = "dry_run")]
    wait: Option<Duration>,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let options = RequestOptions {
        force: args.force,
        dry_run: args.request.dry_run,
    };
    let client = OperatorClient::open(global, &args.request.pod).await?;
    // Open the stream before the request, so that no event is missed.
    let watch = match args.wait {
        Some(time) => Some((wait::Exits::open(&client).await?, time)),
        None => None,
    };
    let answer = client.send("quit", options).await?;
    let containers: Vec<String> = answer
        .steps
        .iter()
        .map(|step| step.container.clone())
        .collect();
    let is_accepted = answer.answer == OperatorReply::TAKEN;
    show(global, answer)?;
    match watch {
        Some((exits, time)) if is_accepted => exits.wait(containers, time).await,
        _ => Ok(Exit::Success),
    }
}
