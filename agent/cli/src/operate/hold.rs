//! `usher hold`: has connections of a pod wait until its sidecars are ready.

use super::operator_request;
use crate::global::{Exit, Global};

/// Have connections of a pod wait until its sidecars are ready
///
/// For a pod that is being made, or whose proxy is not ready: from now on, or
/// from the end of its init containers on, until the sidecars are ready, for at
/// most usher.dev/hold-deadline. Neither the node's mode nor usher.dev/hold
/// counts. Starts of apps wait where the pod asks for that.
///
/// After the fact new connections wait, and nothing else changes: what an app
/// has connected to stays as it is, a connection that was refused stays
/// refused, and a start that is over is over. A sidecar that is ready already
/// lets them go at once. Exits with 3 when it is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    order: operator_request::Given,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    operator_request::run(global, "hold", &args.order).await
}
