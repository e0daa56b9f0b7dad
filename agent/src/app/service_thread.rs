//! The second thread: it talks to others, and writes down what the first decided.

use anyhow::Context;
use tokio::sync::mpsc;

use super::{runtime, services::Services};
use crate::{
    node::privileges,
    telemetry::decision_log::{Record, Recorder},
};

/// What runs on the second thread.
pub(super) struct Beside<'args> {
    pub(super) recorder: Recorder,
    pub(super) records: mpsc::Receiver<Record>,
    pub(super) services: Services<'args>,
}

impl Beside<'_> {
    pub(super) fn run(self) -> anyhow::Result<()> {
        privileges::none();
        let runtime = runtime().context("starting the runtime beside")?;
        let Self {
            mut recorder,
            mut records,
            services,
        } = self;
        let served = runtime.block_on(async {
            tokio::select! {
                served = services.serve() => served,
                () = recorder.run(&mut records) => Ok(()),
            }
        });
        // With it go all ends of the inputs here, so the first thread ends;
        // what it still decided is written down.
        drop(runtime);
        recorder.drain(&mut records);
        served
    }
}
