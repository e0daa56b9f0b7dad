//! `usher hold`: holds a pod's connections until its sidecars are ready.

use super::operator_request;
use crate::{
    failure::Failure,
    global::{Exit, Global},
};

/// Hold a pod's connections until its sidecars are ready
///
/// Use it for a pod that is being created, or for one with a proxy that is not ready. The hold starts now, or when the
/// pod's init containers have finished. It ends when the sidecars are ready, or after usher.dev/hold-deadline. It
/// overrides the node's mode and usher.dev/hold. Starts of app containers are held only where the pod requests it.
///
/// Only new connections are held. Established and refused connections, and containers that have already started, stay
/// as they are. If the sidecars are ready already, nothing is held. Exits with 3 when the request is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    request: operator_request::RequestArgs,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    operator_request::run(global, "hold", &args.request).await
}
