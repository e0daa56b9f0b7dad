//! The log: one line an event, as text or JSON, on standard output.

use std::error::Error;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::args::{LogArgs, LogFormat};

/// Starts logging.
pub(crate) fn init(args: &LogArgs) -> anyhow::Result<()> {
    let filter = &args.log;
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter:?} is not a log filter"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false);
    match args.log_format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

/// An error and everything that caused it, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
