//! `usher status`: how usher is on this node, on one screen.

use std::time::{Duration, Instant};

use usher_core::{
    admin::{Origin, Status},
    base::duration,
};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::{
    data_source::DataSource,
    duration_text,
    failure::Failure,
    global::{Exit, Format, Global},
    output::{Output, Report, SysdumpReport},
};

/// How often it is looked at while it is waited for.
const LOOK: Duration = Duration::from_millis(500);

/// Show how usher is on this node, and what is wrong with it
///
/// Without an agent it says what can be seen without one.
///
/// Exits with 0 when all is well, 1 when something is wrong, 5 when no agent
/// answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One line
    #[arg(short, long)]
    brief: bool,

    /// Wait until all is well, for 5m or as long as is given, and print one line
    /// whenever something changes
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "5m", value_parser = duration::parse)]
    wait: Option<Duration>,
}

/// What is shown, and how much of it.
#[derive(Debug, serde::Serialize)]
struct Shown {
    #[serde(flatten)]
    status: Status,
    #[serde(skip)]
    brief: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Exit {
    let answer = match args.wait {
        None => look(global).await,
        Some(most) => wait(global, most).await,
    };
    let (from, status) = match answer {
        Ok(answer) => answer,
        Err(error) => return error.report(),
    };
    let exit = exit(&status);
    // Its changes were told line by line.
    if args.wait.is_some() && matches!(global.output, Format::Table | Format::Wide) {
        return exit;
    }
    let brief = args.brief;
    match Output::new(global).show(from, Shown { status, brief }) {
        Exit::Success => exit,
        failed => failed,
    }
}

/// The state of usher.
///
/// # Errors
/// When it cannot be had.
pub(crate) async fn gather(source: &DataSource) -> Result<Status, Failure> {
    source.status().await
}

async fn look(global: &Global) -> Result<(Origin, Status), Failure> {
    let source = DataSource::open_quietly(global).await?;
    let status = gather(&source).await?;
    Ok((source.origin(), status))
}

/// Looks until all is well or the time is over. An agent that does not answer yet is waited for.
async fn wait(global: &Global, most: Duration) -> Result<(Origin, Status), Failure> {
    let end = Instant::now() + most;
    let output = Output::new(global);
    let tells = matches!(global.output, Format::Table | Format::Wide);
    let mut told = String::new();
    loop {
        let answer = look(global).await;
        let line = match &answer {
            Ok((_, status)) => brief(status),
            Err(failure) if failure.exit == Exit::Unavailable => {
                Cell::new(failure.text.clone(), Tone::Bad)
            }
            Err(_) => return answer,
        };
        if line.text != told && tells {
            output.line(&line)?;
        }
        told = line.text;
        let is_well = answer
            .as_ref()
            .is_ok_and(|(_, status)| exit(status) == Exit::Success);
        if is_well || Instant::now() >= end {
            return answer;
        }
        tokio::time::sleep(LOOK.min(end.saturating_duration_since(Instant::now()))).await;
    }
}

fn exit(status: &Status) -> Exit {
    match (&status.agent, status.problems.is_empty()) {
        (None, _) => Exit::Unavailable,
        (Some(_), true) => Exit::Success,
        (Some(_), false) => Exit::Problem,
    }
}

/// All of it in one line. What can change by itself every second is not in it.
fn brief(status: &Status) -> Cell {
    let modes = &status.modes;
    let pods = &status.pods;
    let state = format!(
        "quit {}, hold {}, {} pods, {} held, {} finished",
        modes.quit, modes.hold, pods.seen, pods.held, pods.finished
    );
    let Some(problem) = status.problems.first() else {
        return Cell::new(format!("ok: {state}"), Tone::Good);
    };
    let more = match status.problems.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let (word, tone) = match &status.agent {
        Some(_) => ("degraded", Tone::Warn),
        None => ("no agent", Tone::Bad),
    };
    let line = format!("{word}: {}{more} ({}); {state}", problem.what, problem.next);
    Cell::new(line, tone)
}

impl SysdumpReport for Status {
    const KIND: &'static str = "Status";
    const NAME: &'static str = "status";
}

impl Report for Shown {
    const KIND: &'static str = "Status";

    fn table(&self, _wide: bool) -> Table {
        let mut table = Table::default();
        if self.brief {
            table.lead(brief(&self.status));
            return table;
        }
        for (name, value, tone) in lines(&self.status) {
            // A name of 14 letters and a value that others wrote.
            table.lead(Cell::new(format!("{name:<14}{value}"), tone));
        }
        table.lead("");
        let problems = &self.status.problems;
        if problems.is_empty() {
            table.lead(Cell::new("all is well", Tone::Good));
        }
        for problem in problems {
            table.lead(Cell::new(format!("✗ {}", problem.what), Tone::Bad));
            table.lead(format!("  next: {}", problem.next));
        }
        table
    }
}

fn lines(status: &Status) -> Vec<(&'static str, String, Tone)> {
    let mut lines = Vec::new();
    if !status.node.is_empty() {
        lines.push(("node", status.node.clone(), Tone::Plain));
    }
    lines.push(match &status.agent {
        None => ("agent", "none answers".to_owned(), Tone::Bad),
        Some(agent) => {
            let (ready, tone) = if agent.ready {
                ("ready".to_owned(), Tone::Plain)
            } else {
                (format!("not ready: {}", agent.waits.join("; ")), Tone::Bad)
            };
            let up = duration_text(agent.up_ms);
            let line = format!("{}, up {up}, process {}, {ready}", agent.version, agent.pid);
            ("agent", line, tone)
        }
    });
    let modes = &status.modes;
    let mode = |mode: &str, lasts: Option<u64>| match (modes.known, lasts) {
        (false, _) => format!("{mode}, since nobody tells what the Node says"),
        (true, Some(lasts)) => format!("{mode} for {}", duration_text(lasts)),
        (true, None) => format!("{mode}, as was last known"),
    };
    lines.push(("quit", mode(&modes.quit, modes.quit_for_ms), Tone::Plain));
    lines.push(("hold", mode(&modes.hold, modes.hold_for_ms), Tone::Plain));
    if status.agent.is_some() {
        lines.extend(of_agent(status));
    }
    lines.push(kubelet(status));
    let pods = &status.pods;
    let mut line = format!(
        "{} seen, {} of usher's business, {} held, {} finished, {} failed",
        pods.seen, pods.ours, pods.held, pods.finished, pods.failed
    );
    if pods.held_starts > 0 {
        line.push_str(&format!("; {} starts held", pods.held_starts));
    }
    let tone = if pods.failed > 0 {
        Tone::Warn
    } else {
        Tone::Plain
    };
    lines.push(("pods", line, tone));
    lines
}

/// What only an agent tells.
fn of_agent(status: &Status) -> Vec<(&'static str, String, Tone)> {
    let can = |what: &str, lacks: &Option<String>| match lacks {
        None => format!("{what}: yes"),
        Some(lacks) => format!("{what}: no ({lacks})"),
    };
    let lacks = &status.lacks;
    let kernel = [
        can("connections", &lacks.hold),
        can("DNS", &lacks.dns),
        can("starts", &lacks.start),
    ];
    let plugin = &status.plugin;
    let said = plugin.said.clone();
    let (plugin, tone) = match (plugin.managed, plugin.installed, plugin.failed) {
        (false, ..) => ("not installed by this agent".to_owned(), Tone::Faint),
        (true, true, _) => (
            format!("installed in {}", said.unwrap_or_default()),
            Tone::Plain,
        ),
        (true, false, true) => (said.unwrap_or_default(), Tone::Bad),
        (true, false, false) => (
            said.unwrap_or_else(|| "not installed, as the Node's mode wants it".to_owned()),
            Tone::Plain,
        ),
    };
    let api = &status.api_server;
    let heard = api.heard_ms_ago.map_or_else(
        || "never".to_owned(),
        |ago| format!("{} ago", duration_text(ago)),
    );
    let (api, api_tone) = match (&api.error, api.watched) {
        (Some(error), _) => (format!("last heard {heard}: {error}"), Tone::Bad),
        (None, true) => (format!("last heard {heard}"), Tone::Plain),
        (None, false) => ("not asked".to_owned(), Tone::Faint),
    };
    let configuration = &status.configuration;
    let (file, file_tone) = match &configuration.error {
        None => (format!("as in {}", configuration.file), Tone::Plain),
        Some(error) => (format!("an older one counts: {error}"), Tone::Bad),
    };
    vec![
        ("can hold", kernel.join(", "), Tone::Plain),
        ("CNI plugin", plugin, tone),
        ("API server", api, api_tone),
        ("configuration", file, file_tone),
    ]
}

fn kubelet(status: &Status) -> (&'static str, String, Tone) {
    let kubelet = &status.kubelet;
    let listed = kubelet.listed_ms_ago.map(duration_text);
    match (&kubelet.error, listed) {
        (Some(error), None) => ("kubelet", error.clone(), Tone::Bad),
        (Some(error), Some(ago)) => (
            "kubelet",
            format!("last list {ago} ago: {error}"),
            Tone::Bad,
        ),
        (None, Some(ago)) => ("kubelet", format!("listed its pods {ago} ago"), Tone::Plain),
        (None, None) => ("kubelet", "not asked yet".to_owned(), Tone::Warn),
    }
}
