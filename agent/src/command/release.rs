//! `usher release`: lets everything of a pod go that waits.

use super::{
    global::{Exit, Global},
    order,
};
use crate::admin::Manner;

/// Let connections and starts of a pod go that wait
///
/// The doors open now, whether the sidecars are ready or not: connections go
/// on, and may be refused. They are not shut again while the pod's sandbox
/// lives, unless `usher hold` says so. Exits with 3 when it is refused.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pod: namespace/name, UID, container id, pid, IP or a unique part of
    /// its name
    pod: String,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: &Args, global: &Global) -> Exit {
    let manner = Manner {
        force: false,
        dry_run: args.dry_run,
    };
    order::run(global, &args.pod, "release", manner).await
}
