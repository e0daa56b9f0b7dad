//! `usher watch`: prints decisions as usher makes them.

mod journal;
pub(crate) mod lines;
mod show;
mod writer;

use std::{
    future::pending,
    io::{self, ErrorKind},
    time::Duration,
};

use tokio::signal::unix::{Signal, SignalKind, signal};
use usher_core::{
    admin::WatchLine,
    base::duration,
    decision::timeline::{Detail, Entry},
};
use usher_inspect::{pod_selector::Names, text::printable::clean};

use self::{lines::Lines, show::Show, writer::Writer};
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::stdout,
    pod::pod_arg::resolve_pod,
    stderr::print_stderr,
};

/// Follow the decisions of usher
///
/// Prints one line for each new decision until you press Ctrl-C, which exits with 0. A part of a pod's name also
/// matches pods that start later. If the output is read too slowly, a line has the number of missed decisions. With
/// -o json each line is one object, as in the agent's timeline. Without an agent
/// it follows the timeline's file, to which the next agent appends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this pod: namespace/name, UID, container id, pid, IP or a part of its name
    pod: Option<String>,

    /// Only these decisions, such as quit-accepted; may be given several times
    #[arg(long, value_name = "NAME", value_parser = decision)]
    decision: Vec<Detail>,

    /// Also the decisions of this time before, such as 10m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    since: Option<Duration>,

    /// End after so many lines
    #[arg(long, value_name = "LINES")]
    count: Option<u64>,

    /// End when standard input ends. kubectl usher keeps it open: the API server does not close the output of a command
    /// whose client has gone.
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

fn decision(text: &str) -> Result<Detail, String> {
    match Detail::named(text) {
        Detail::Unknown { .. } => {
            let names = usher_core::decision::NAMES.join(", ");
            Err(format!("unknown decision; valid names: {names}"))
        }
        detail => Ok(detail),
    }
}

#[derive(Debug)]
struct Filter {
    which: Which,
    namespace: Option<String>,
    decisions: Vec<Detail>,
}

#[derive(Debug)]
enum Which {
    All,
    Uid(String),
    /// Pods with this text in their names, or at the beginning of their UIDs.
    Part(String),
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let source = DataSource::open_quietly(global).await?;
    let mut ends = Ends::listen()?;
    let mut lines = match source.agent() {
        Ok(agent) => Lines::of_agent(agent).await?,
        Err(why) => {
            let lines = Lines::of_journal(&source.node.args.run_dir)?;
            print_stderr(&format!(
                "{}: following the timeline's file, to which an agent writes when there is one",
                why.text.split(';').next().unwrap_or_default()
            ));
            lines
        }
    };
    if let Some(since) = args.since {
        // Read the file after the stream is open, so that no decision between the two is lost.
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let first = source.node.now_ms().saturating_sub(since);
        let mut entries = source.node.recorded();
        entries.retain(|entry| entry.at_ms >= first);
        entries.sort_by_key(|entry| entry.at_ms);
        lines.replay(entries);
    }
    let show = Show::new(global);
    let client_closed = async {
        match args.end_with_stdin {
            true => writer::closed(io::stdin()).await,
            false => pending().await,
        }
    };
    // A signal ends the command at any time, and so does the end of its reader: the next line may never come.
    tokio::select! {
        biased;
        () = ends.come() => Ok(Exit::Success),
        () = writer::closed(io::stdout()) => Ok(Exit::Success),
        () = client_closed => Ok(Exit::Success),
        followed = follow(&source, &mut lines, args, global, &show) => followed,
    }
}

async fn follow(
    source: &DataSource,
    lines: &mut Lines,
    args: &Args,
    global: &Global,
    show: &Show,
) -> Result<Exit, Failure> {
    let filter = Filter {
        which: which(source, args.pod.as_deref()).await?,
        namespace: global.namespace.clone(),
        decisions: args.decision.clone(),
    };
    let mut writer = Writer::start()?;
    let mut left = args.count;
    let mut next = show.headers();
    loop {
        match writer.write(next).await {
            // The reader closed its end.
            Err(unread) if unread.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Success),
            written => written.map_err(|error| stdout::unwritable(&error))?,
        }
        if left == Some(0) {
            return Ok(Exit::Success);
        }
        next = loop {
            let line = lines.next().await?;
            match &line {
                WatchLine::Missed { missed } => {
                    let text = "decisions: they came faster than they were read";
                    writer.print_stderr(format!("missed {missed} {text}")).await;
                    if show.tells_gaps() {
                        break show.line(&line);
                    }
                }
                WatchLine::Entry(entry) if !filter.fits(entry) => {}
                WatchLine::Entry(_) => {
                    left = left.map(|left| left - 1);
                    break show.line(&line);
                }
            }
        };
    }
}

async fn which(source: &DataSource, given: Option<&str>) -> Result<Which, Failure> {
    let Some(given) = given else {
        return Ok(Which::All);
    };
    match resolve_pod(source, given, Names::Whole).await {
        Ok(pod) => Ok(Which::Uid(pod.uid)),
        Err(none) if none.exit == Exit::PodSelection => {
            print_stderr(&format!(
                "watching all pods with {:?} in their names, now and later",
                clean(given)
            ));
            Ok(Which::Part(given.to_owned()))
        }
        Err(error) => Err(error),
    }
}

impl Filter {
    fn fits(&self, entry: &Entry) -> bool {
        let pod = match &self.which {
            Which::All => true,
            Which::Uid(uid) => entry.uid == *uid,
            // With its namespace: that of another pod may end with it.
            Which::Part(part) if part.contains('/') => entry.pod.starts_with(part),
            Which::Part(part) => entry.pod.contains(part) || entry.uid.starts_with(part),
        };
        let own = entry
            .pod
            .split_once('/')
            .map(|(namespace, _name)| namespace);
        let namespace = self.namespace.as_deref();
        let decisions = &self.decisions;
        pod && namespace.is_none_or(|wanted| own == Some(wanted))
            && (decisions.is_empty() || decisions.iter().any(|one| one.is_same(&entry.detail)))
    }
}

/// Signals that end the command with exit code 0.
#[derive(Debug)]
struct Ends {
    interrupt: Signal,
    terminate: Signal,
}

impl Ends {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::unavailable(error.to_string()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pod: &str, name: &str) -> Entry {
        Entry {
            at_ms: 0,
            uid: "u1".to_owned(),
            pod: pod.to_owned(),
            detail: Detail::named(name),
            container: None,
            reason: String::new(),
            since_exit_ms: None,
        }
    }

    #[test]
    fn filters() {
        let filter = |which, namespace: Option<&str>, decisions: &[&str]| Filter {
            which,
            namespace: namespace.map(str::to_owned),
            decisions: decisions.iter().map(|name| Detail::named(name)).collect(),
        };
        let entry = entry("shop/report-1", "waiting");
        let table = [
            (filter(Which::All, None, &[]), true),
            (filter(Which::All, Some("shop"), &["waiting"]), true),
            (filter(Which::All, Some("sho"), &[]), false),
            (
                filter(Which::All, None, &["gave-up", "not-applicable"]),
                false,
            ),
            (filter(Which::Uid("u1".to_owned()), None, &[]), true),
            (filter(Which::Uid("u".to_owned()), None, &[]), false),
            (filter(Which::Part("report".to_owned()), None, &[]), true),
            (filter(Which::Part("bank".to_owned()), None, &[]), false),
            (filter(Which::Part("shop/rep".to_owned()), None, &[]), true),
            (filter(Which::Part("hop/rep".to_owned()), None, &[]), false),
        ];
        for (filter, fits) in table {
            assert_eq!(filter.fits(&entry), fits, "{filter:?}");
        }
        assert!(decision("gave-up").is_ok() && decision("gave up").is_err());
    }
}
