//! `usher release`: releases everything that is held in a pod.

use super::operator_request;
use crate::{
    failure::Failure,
    global::{Exit, Global},
};

/// Release a pod's held connections, starts and stop signals
///
/// Held connections continue now, whether or not the sidecars are ready, and may be refused. The pod is not held again
/// while its sandbox exists, unless `usher hold` requests it. In a pod that is being deleted, the held stop signals of
/// its containers are released as well. Exits with 3 when the request is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    request: operator_request::RequestArgs,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    operator_request::run(global, "release", &args.request).await
}
