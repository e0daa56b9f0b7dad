//! `usher status`: the health of usher on this node, on one screen.

use std::time::{Duration, Instant};

use usher_core::{
    admin::{Origin, Status},
    base::duration,
    settings::mode::Mode,
};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, SysdumpReport, duration_text},
    pod::pod_arg::reject_file,
};

/// Poll interval of `--wait`.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Show the health of usher on this node, with the next step for each problem
///
/// Without an agent, the command shows what it can read from the node.
///
/// Exits with 0 when usher is healthy, with 1 when there is a problem, with 5 when no agent answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one line
    #[arg(short, long)]
    brief: bool,

    /// Wait until usher is healthy, at most for TIME (5m without a value), and print a line for each change
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "5m", value_parser = duration::parse)]
    wait: Option<Duration>,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    check(args, global)?;
    let (from, status) = match args.wait {
        None => current(global).await?,
        Some(most) => wait(global, most).await?,
    };
    let exit = exit(&status);
    let output = Output::new(global);
    match (global.output.is_for_people(), args.wait) {
        // Each change was already printed as a line.
        (true, Some(_)) => {}
        (true, None) if args.brief => output.line(&brief(&status))?,
        _ => output.show(from, status)?,
    }
    Ok(exit)
}

/// A sysdump does not change, so a wait for a change is an error.
fn check(args: &Args, global: &Global) -> Result<(), Failure> {
    match args.wait {
        None => Ok(()),
        Some(_) => reject_file(global, "usher status --wait"),
    }
}

async fn current(global: &Global) -> Result<(Origin, Status), Failure> {
    let source = DataSource::open_quietly(global).await?;
    let status = source.status().await?;
    Ok((source.origin(), status))
}

/// Polls until usher is healthy or the timeout expires. Also polls an agent that does not answer yet.
async fn wait(global: &Global, most: Duration) -> Result<(Origin, Status), Failure> {
    let end = Instant::now() + most;
    let output = Output::new(global);
    let prints_changes = global.output.is_for_people();
    let mut printed = String::new();
    loop {
        let answer = current(global).await;
        let line = match &answer {
            Ok((_, status)) => brief(status),
            Err(failure) if failure.exit == Exit::Unavailable => {
                Cell::new(failure.text.clone(), Tone::Bad)
            }
            Err(_) => return answer,
        };
        if line.text != printed && prints_changes {
            output.line(&line)?;
        }
        printed = line.text;
        let is_healthy = answer
            .as_ref()
            .is_ok_and(|(_, status)| exit(status) == Exit::Success);
        if is_healthy || Instant::now() >= end {
            return answer;
        }
        tokio::time::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
    }
}

fn exit(status: &Status) -> Exit {
    match (&status.agent, status.problems.is_empty()) {
        (None, _) => Exit::Unavailable,
        (Some(_), true) => Exit::Success,
        (Some(_), false) => Exit::Problem,
    }
}

/// The status in one line, without durations: they would change every second.
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
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "status";
}

impl Report for Status {
    const KIND: &'static str = "Status";

    fn table(&self, _wide: bool) -> Table {
        let mut table = Table::default();
        for (name, value, tone) in lines(self) {
            // The longest name has 13 letters.
            table.lead(Cell::new(format!("{name:<14}{value}"), tone));
        }
        table.lead("");
        if self.problems.is_empty() {
            table.lead(Cell::new("usher is healthy", Tone::Good));
        }
        for problem in &self.problems {
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
        None => ("agent", "no agent answers".to_owned(), Tone::Bad),
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
    let mode = |mode: Mode, lasts: Option<u64>, source: &Option<String>| {
        let source = match (modes.known, lasts, source) {
            (true, Some(_), Some(source)) => format!(" ({source})"),
            (true, Some(_), None) => String::new(),
            (true, None, Some(source)) => format!(" (last known; {source})"),
            (true, None, None) => " (last known)".to_owned(),
            (false, _, Some(source)) => format!(" ({source}; the Node is not known)"),
            (false, _, None) => " (the Node is not known)".to_owned(),
        };
        let lasts = lasts.filter(|_| modes.known);
        let lasts = lasts.map_or_else(String::new, |lasts| {
            format!(" for {}", duration_text(lasts))
        });
        format!("{mode}{lasts}{source}")
    };
    let quit = mode(modes.quit, modes.quit_for_ms, &modes.quit_source);
    let hold = mode(modes.hold, modes.hold_for_ms, &modes.hold_source);
    let linger = mode(modes.linger, modes.linger_for_ms, &modes.linger_source);
    lines.extend([
        ("quit", quit, Tone::Plain),
        ("hold", hold, Tone::Plain),
        ("linger", linger, Tone::Plain),
    ]);
    if status.agent.is_some() {
        lines.extend(agent_lines(status));
    }
    lines.push(kubelet(status));
    let pods = &status.pods;
    let mut line = format!(
        "{} seen, {} managed, {} held, {} finished, {} failed",
        pods.seen, pods.ours, pods.held, pods.finished, pods.failed
    );
    if pods.held_starts > 0 {
        line.push_str(&format!(", {} starts held", pods.held_starts));
    }
    if pods.held_stops > 0 {
        line.push_str(&format!(", {} stop signals held", pods.held_stops));
    }
    let tone = if pods.failed > 0 {
        Tone::Warn
    } else {
        Tone::Plain
    };
    lines.push(("pods", line, tone));
    lines
}

fn agent_lines(status: &Status) -> Vec<(&'static str, String, Tone)> {
    let lacks = &status.lacks;
    let (hold, hold_tone) = hold_support([
        ("connections", &lacks.hold),
        ("DNS", &lacks.dns),
        ("starts", &lacks.start),
    ]);
    let plugin = &status.plugin;
    let detail = plugin.detail.clone();
    let (plugin, tone) = match (plugin.managed, plugin.installed, plugin.failed) {
        (false, ..) => ("not installed by this agent".to_owned(), Tone::Faint),
        (true, false, true) => (detail.unwrap_or_default(), Tone::Bad),
        (true, true, true) => (
            format!("installed; {}", detail.unwrap_or_default()),
            Tone::Bad,
        ),
        (true, true, false) => (
            format!("installed in {}", detail.unwrap_or_default()),
            Tone::Plain,
        ),
        (true, false, false) => (
            detail.unwrap_or_else(|| {
                format!(
                    "not installed (expected: hold is in {} mode)",
                    status.modes.hold
                )
            }),
            Tone::Plain,
        ),
    };
    let api = &status.api_server;
    let contact = api.last_response_ms_ago.map_or_else(
        || "never".to_owned(),
        |ago| format!("{} ago", duration_text(ago)),
    );
    let (api, api_tone) = match (&api.error, api.watched) {
        (Some(error), _) => (format!("last contact {contact}: {error}"), Tone::Bad),
        (None, true) => (format!("last contact {contact}"), Tone::Plain),
        (None, false) => ("not used".to_owned(), Tone::Faint),
    };
    let configuration = &status.configuration;
    let (file, file_tone) = match &configuration.error {
        None => (configuration.file.clone(), Tone::Plain),
        Some(error) => (
            format!("invalid, the last good one is in use: {error}"),
            Tone::Bad,
        ),
    };
    vec![
        ("hold support", hold, hold_tone),
        ("CNI plugin", plugin, tone),
        ("API server", api, api_tone),
        ("configuration", file, file_tone),
    ]
}

/// The kinds of hold that the kernel supports, and why it does not support others.
fn hold_support(kinds: [(&str, &Option<String>); 3]) -> (String, Tone) {
    let supported: Vec<&str> = kinds
        .iter()
        .filter(|(_kind, missing)| missing.is_none())
        .map(|(kind, _missing)| *kind)
        .collect();
    let unsupported: Vec<String> = kinds
        .iter()
        .filter_map(|(kind, missing)| Some(format!("no {kind} ({})", missing.as_ref()?)))
        .collect();
    let tone = if unsupported.is_empty() {
        Tone::Plain
    } else {
        Tone::Warn
    };
    let supported = match supported.as_slice() {
        [] => "none".to_owned(),
        supported => supported.join(", "),
    };
    let parts: Vec<String> = [supported].into_iter().chain(unsupported).collect();
    (parts.join("; "), tone)
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
        (None, Some(ago)) => ("kubelet", format!("last list {ago} ago"), Tone::Plain),
        (None, None) => ("kubelet", "no list yet".to_owned(), Tone::Warn),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn wait_rejects_a_sysdump() {
        for (words, expected) in [
            (vec!["--file=x"], Ok(())),
            (vec!["--wait"], Ok(())),
            (vec!["--wait", "--file=x"], Err(Exit::Usage)),
        ] {
            let words = ["usher", "status"].into_iter().chain(words);
            let parsed = crate::Args::try_parse_from(words).unwrap();
            let crate::Command::Status(args) = parsed.command else {
                panic!("another command");
            };
            let checked = check(&args, &parsed.global);
            assert_eq!(checked.map_err(|failure| failure.exit), expected);
        }
    }
}
