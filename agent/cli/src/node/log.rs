//! `usher log`: the log filter of the agent.

use std::time::Duration;

use hyper::Method;
use usher_core::{
    admin::{
        Log,
        log_filter::{USUAL, Wish},
    },
    base::duration,
};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::{
    data_source::{Client, DataSource},
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report},
};

const PATH: &str = "/v1/log";

/// Print the agent's log filter, or change it for a limited time
///
/// Without flags, prints the current filter. A changed filter expires, and the agent returns to the filter that it was
/// started with. The process that holds starts always keeps the filter that it was started with.
///
/// For example: usher log --level agent::install=debug --level core=trace --for 5m
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A level (off, error, warn, info, debug, trace) for everything, or TARGET=LEVEL for a module of agent, core or
    /// sys and its submodules; repeatable; adds to the filter that the agent was started with
    #[arg(long, value_name = "[TARGET=]LEVEL")]
    level: Vec<String>,

    /// How long the filter applies, from 1s to 24h [default: 10m]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, requires = "level")]
    lasts: Option<Duration>,

    /// Return to the filter that the agent was started with, now
    #[arg(long, conflicts_with = "level")]
    reset: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let source = DataSource::open_quietly(global).await?;
    let log = if args.reset {
        reset(source.agent()?).await?
    } else if args.level.is_empty() {
        gather(&source).await?
    } else {
        change(source.agent()?, args).await?
    };
    Output::new(global).show(source.origin(), log)?;
    Ok(Exit::Success)
}

pub(crate) async fn gather(source: &DataSource) -> Result<Log, Failure> {
    source.agent()?.get(PATH).await
}

async fn change(agent: &Client, args: &Args) -> Result<Log, Failure> {
    let lasts = args.lasts.unwrap_or(USUAL).as_millis();
    let wish = Wish {
        directives: args.level.clone(),
        for_ms: u64::try_from(lasts).unwrap_or(u64::MAX),
    };
    agent.send(Method::PUT, PATH, &wish).await
}

async fn reset(agent: &Client) -> Result<Log, Failure> {
    agent.decode(&agent.text(Method::DELETE, PATH).await?)
}

impl Report for Log {
    const KIND: &'static str = "Log";

    fn table(&self, _wide: bool) -> Table {
        let mut table = Table::default();
        match self.reverts_in_ms {
            None => table.lead(format!("{} (as at the start of the agent)", self.filter)),
            Some(left) => {
                // Round up, so that a new filter shows the duration that was requested.
                let left = crate::output::duration_text(left.next_multiple_of(1000));
                let line = format!("{} for another {left}, then {}", self.filter, self.base);
                table.lead(Cell::new(line, Tone::Warn));
            }
        }
        table
    }
}
