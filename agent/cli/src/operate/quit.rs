//! `usher quit`: shows the sidecars of a pod out now.

mod wait;

use std::time::Duration;

use usher_core::{
    admin::{Ordered, RequestOptions},
    base::duration,
};

use super::operator_request::{self, OperatorClient, show};
use crate::global::{Exit, Global};

/// Show the sidecars of a pod out now
///
/// The agent takes the steps that it would take by itself, and neither the
/// node's mode nor usher.dev/quit nor a delay counts: what you order is done.
/// It refuses while an app container runs or may be started again, and where
/// nothing is left but a step that makes a pod that succeeded a failed one;
/// --force does it all the same, and the timeline says so. The order is about
/// the sidecars that run now: one that is started again is left alone.
///
/// The answer comes when the decision was made; --wait waits for the sidecars'
/// ends. Exits with 3 when it is refused, and with 1 when --wait has waited for
/// too long or usher gave up.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    order: operator_request::Given,

    /// Also while an app runs, and also where it spoils the pod
    #[arg(long)]
    force: bool,

    /// Wait until the sidecars have ended, for so long at most
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "1m", value_parser = duration::parse, conflicts_with = "dry_run")]
    wait: Option<Duration>,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    let manner = RequestOptions {
        force: args.force,
        dry_run: args.order.dry_run,
    };
    let desk = match OperatorClient::open(global, &args.order.pod).await {
        Ok(desk) => desk,
        Err(error) => return error.report(),
    };
    // Before the order, so that nothing happens unseen.
    let watch = match args.wait {
        Some(_time) => match wait::Ends::open(&desk).await {
            Ok(ends) => Some(ends),
            Err(error) => return error.report(),
        },
        None => None,
    };
    let answer = match desk.give("quit", manner).await {
        Ok(answer) => answer,
        Err(error) => return error.report(),
    };
    let containers = answer.steps.iter().map(|step| step.container.clone());
    let containers: Vec<String> = containers.collect();
    let taken = answer.answer == Ordered::TAKEN;
    let exit = show(global, answer);
    match (watch, args.wait) {
        (Some(ends), Some(time)) if taken && exit == Exit::Success => {
            ends.wait(containers, time).await
        }
        _ => exit,
    }
}
