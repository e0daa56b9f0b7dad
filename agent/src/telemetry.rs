//! Telemetry: the log, spans, metrics, health and the recorder of decisions.
//!
//! The log goes to standard output, one line per event, as text or JSON. If the container runtime does not read it, a
//! write blocks after some 128 KiB. So a separate thread writes the agent's lines. Its queue has room for [`LINES`];
//! further lines are dropped and counted.

pub(crate) mod decision_log;
pub(crate) mod health;
pub(crate) mod log_level;
pub(crate) mod metrics;
pub(crate) mod reporter;

use std::{io, sync::OnceLock, thread};

use anyhow::Context;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    EnvFilter, Layer,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};
use usher_sys::process::capability;

pub(crate) use self::log_level::{LogLevel, log_level};
use crate::args::{LogArgs, LogFormat};

/// Lines in the writer's queue: about 1 MB. 250 pods that end at the same time make fewer.
const LINES: usize = 4096;

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// The number of lines that were dropped.
pub(crate) fn dropped() -> u64 {
    DROPPED
        .get()
        .map_or(0, |counter| counter.dropped_lines() as u64)
}

/// Starts logging until the guard is dropped. Logging never waits for the reader.
pub(crate) fn init(args: &LogArgs) -> anyhow::Result<WorkerGuard> {
    let start = || {
        // The writing thread inherits the capabilities of this thread, which drops them all. The other threads report
        // a failure of the drop.
        drop(capability::keep_only(&[]));
        NonBlockingBuilder::default()
            .thread_name("log")
            .buffered_lines_limit(LINES)
            .finish(io::stdout())
    };
    let started = thread::scope(|scope| {
        let starter = thread::Builder::new().spawn_scoped(scope, start)?;
        let panicked = |_panic| io::Error::other("the starting thread panicked");
        starter.join().map_err(panicked)
    });
    let (writer, guard) = started.context("starting the thread that writes the log")?;
    // Set only once: a process does not start logging again.
    DROPPED.get_or_init(|| writer.error_counter());
    init_with(args, writer)?;
    Ok(guard)
}

/// Starts logging in a process that must have only one thread, which writes the lines itself.
pub(crate) fn init_single_threaded(args: &LogArgs) -> anyhow::Result<()> {
    init_with(args, io::stdout)
}

fn init_with(
    args: &LogArgs,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let filter = &args.log;
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("invalid log filter {filter:?} in --log"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer()
        .log_internal_errors(true)
        .with_target(false)
        .with_ansi(false)
        .with_writer(writer);
    let lines = match args.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    log_level::register(&args.log, handle);
    Ok(())
}
