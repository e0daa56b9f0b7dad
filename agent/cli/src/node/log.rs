//! `usher log`: what the agent logs, changed for a while.

use std::time::Duration;

use hyper::{Method, body::Bytes};
use usher_core::{
    admin::{
        Document, Log,
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

/// Show what the agent logs, or have it log more for a while
///
/// Without flags the filter that counts is shown. A filter that was changed goes
/// back to what the agent was started with by itself. The process that holds
/// starts keeps the filter that it was started with.
///
/// For example: usher log --level agent::installer=debug --level core=trace --for 5m
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A level (off, error, warn, info, debug, trace) for everything, or
    /// TARGET=LEVEL for one module of agent, core or sys and those in it; may be
    /// given several times, and adds to what the agent was started with
    #[arg(long, value_name = "[TARGET=]LEVEL")]
    level: Vec<String>,

    /// For how long, from 1s to 24h [default: 10m]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, requires = "level")]
    lasts: Option<Duration>,

    /// Have what the agent was started with count again, now
    #[arg(long, conflicts_with = "level")]
    reset: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    let answer = async {
        let source = DataSource::open_quietly(global).await?;
        let log = if args.reset {
            reset(source.agent()?).await?
        } else if args.level.is_empty() {
            gather(&source).await?
        } else {
            change(source.agent()?, args).await?
        };
        Ok::<_, Failure>((source.origin(), log))
    };
    match answer.await {
        Ok((from, log)) => Output::new(global).show(from, log),
        Err(error) => error.report(),
    }
}

/// What the agent logs now.
///
/// # Errors
/// When there is no agent.
pub(crate) async fn gather(source: &DataSource) -> Result<Log, Failure> {
    let document: Document<Log> = source.agent()?.get(PATH).await?;
    Ok(document.data)
}

async fn change(agent: &Client, args: &Args) -> Result<Log, Failure> {
    let lasts = args.lasts.unwrap_or(USUAL).as_millis();
    let wish = Wish {
        directives: args.level.clone(),
        for_ms: u64::try_from(lasts).unwrap_or(u64::MAX),
    };
    let document: Document<Log> = agent.send(Method::PUT, PATH, &wish).await?;
    Ok(document.data)
}

async fn reset(agent: &Client) -> Result<Log, Failure> {
    let body = agent.text(Method::DELETE, PATH, Bytes::new()).await?;
    let document: Document<Log> = serde_json::from_slice(&body).map_err(|error| {
        Failure::unavailable(format!("the agent's answer is not understood: {error}"))
    })?;
    Ok(document.data)
}

impl Report for Log {
    const KIND: &'static str = "Log";

    fn table(&self, _wide: bool) -> Table {
        let mut table = Table::default();
        match self.reverts_in_ms {
            None => table.lead(format!("{}, as the agent was started", self.filter)),
            Some(left) => {
                // Up: what was just asked for is what is said.
                let left = crate::duration_text(left.next_multiple_of(1000));
                let line = format!("{}, for {left} more; then {} again", self.filter, self.base);
                table.lead(Cell::new(line, Tone::Warn));
            }
        }
        table
    }
}
