//! `usher release`: lets everything of a pod go that waits.

use super::operator_request;
use crate::global::{Exit, Global};

/// Let connections and starts of a pod go that wait
///
/// The doors open now, whether the sidecars are ready or not: connections go
/// on, and may be refused. They are not shut again while the pod's sandbox
/// lives, unless `usher hold` says so. Exits with 3 when it is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    order: operator_request::Given,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    operator_request::run(global, "release", &args.order).await
}
