//! The service thread: runs the services, and records what the event loop decides.

use anyhow::Context;
use tokio::sync::mpsc;

use super::{
    runtime,
    services::{End, Services},
};
use crate::{
    node::privileges,
    telemetry::decision_log::{Record, Recorder},
};

pub(super) fn run(
    services: Services<'_>,
    mut recorder: Recorder,
    mut records: mpsc::UnboundedReceiver<Record>,
) -> anyhow::Result<End> {
    privileges::drop_all();
    let runtime = runtime().context("starting the runtime of the service thread")?;
    let served = runtime.block_on(async {
        tokio::select! {
            served = services.serve() => served,
            () = recorder.run(&mut records) => Ok(End::Stopped),
        }
    });
    // This drops every sender of inputs, so the event loop ends. The recorder still records its last decisions.
    drop(runtime);
    recorder.drain(&mut records);
    served
}
