//! The log: one line an event, as text or JSON, on standard output.
//!
//! The runtime reads it, and one that is away reads nothing: after some 128 KiB a write waits for its return. So
//! the agent's lines are written by a thread of their own. It has room for [`LINES`]; what is more is dropped and counted.

pub(crate) mod decision_log;
pub(crate) mod health;
pub(crate) mod log_level;
pub(crate) mod metrics;

use std::{io, sync::OnceLock, thread};

use anyhow::Context;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};
use usher_sys::process::capability;

pub(crate) use self::log_level::{Level, level};
use crate::args::{LogArgs, LogFormat};

/// Lines that may wait to be written: about 1 MB, and more than 250 pods make when they end at once.
const LINES: usize = 4096;

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Lines that were dropped so far.
pub(crate) fn dropped() -> u64 {
    DROPPED
        .get()
        .map_or(0, |counter| counter.dropped_lines() as u64)
}

/// Starts logging for as long as the guard is kept, without ever waiting for whoever reads.
pub(crate) fn init(args: &LogArgs) -> anyhow::Result<WorkerGuard> {
    let make = || {
        // The thread that writes has what its maker has: nothing. A failure of this is said of the others.
        drop(capability::keep_only(&[]));
        NonBlockingBuilder::default()
            .thread_name("log")
            .buffered_lines_limit(LINES)
            .finish(io::stdout())
    };
    let made = thread::scope(|scope| {
        let maker = thread::Builder::new().spawn_scoped(scope, make)?;
        let panicked = |_panic| io::Error::other("its maker panicked");
        maker.join().map_err(panicked)
    });
    let (writer, guard) = made.context("starting the thread that writes the log")?;
    // The first one counts; there is no second.
    DROPPED.get_or_init(|| writer.error_counter());
    init_with(args, writer)?;
    Ok(guard)
}

/// The same for a process that may have one thread only, which writes itself.
pub(crate) fn init_alone(args: &LogArgs) -> anyhow::Result<()> {
    init_with(args, io::stdout)
}

fn init_with(
    args: &LogArgs,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let filter = &args.log;
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter:?} is not a log filter"))?;
    let base = args.log.as_str();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(writer);
    match args.log_format {
        LogFormat::Text => {
            let builder = builder.with_ansi(false).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            log_level::keep(
                base,
                Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())),
            );
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            log_level::keep(
                base,
                Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())),
            );
        }
    }
    Ok(())
}
