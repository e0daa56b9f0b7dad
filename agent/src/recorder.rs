//! Decisions, for people: a log line, metrics and an entry in the pod's
//! timeline for each.
//!
//! It is done on the second thread: writing a line takes as long as a request,
//! and 250 exits at once make 750 of them.
//!
//! The timeline is kept in memory and, line by line, in a journal in the run
//! directory, which a restarted agent reads back. The journal is written anew
//! when it has grown: what the timeline has dropped is dropped from it as well.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::sync::mpsc;
use usher_core::{
    Decision,
    decision::Kind,
    hold::Opened,
    timeline::{Entry, Timeline},
};

use crate::{
    metrics::Metrics,
    run_dir::{self, TIMELINE},
    telemetry::chain,
};

/// The journal is written anew beyond this size.
const JOURNAL_BYTES: u64 = 4 * 1024 * 1024;

/// A decision, and when it was made.
#[derive(Debug)]
pub(crate) struct Record {
    at_ms: u64,
    decision: Decision,
}

impl Record {
    pub(crate) fn now(decision: Decision) -> Self {
        Self {
            at_ms: now_ms(),
            decision,
        }
    }
}

/// Records decisions.
#[derive(Debug)]
pub(crate) struct Recorder {
    metrics: Arc<Metrics>,
    timeline: Timeline,
    journal: Option<Journal>,
    run_dir: PathBuf,
}

#[derive(Debug)]
struct Journal {
    file: File,
    bytes: u64,
}

impl Recorder {
    /// Reads back what an earlier agent decided. A journal that cannot be used
    /// is said to be so, and the timeline is kept in memory only.
    pub(crate) fn open(run_dir: &Path, metrics: Arc<Metrics>) -> Self {
        let mut recorder = Self {
            metrics,
            timeline: Timeline::default(),
            journal: None,
            run_dir: run_dir.to_owned(),
        };
        match run_dir::load_text(run_dir, TIMELINE) {
            Ok(text) => recorder.read_back(&text.unwrap_or_default()),
            Err(error) => recorder.complain(&chain(&error)),
        }
        recorder.rewrite();
        recorder
    }

    /// Records decisions as long as some are made.
    pub(crate) async fn run(&mut self, records: &mut mpsc::Receiver<Record>) {
        while let Some(record) = records.recv().await {
            self.record(&record);
        }
    }

    /// The same for those that are left when nothing else runs any more.
    pub(crate) fn drain(&mut self, records: &mut mpsc::Receiver<Record>) {
        while let Some(record) = records.blocking_recv() {
            self.record(&record);
        }
    }

    fn record(&mut self, record: &Record) {
        let Record { at_ms, decision } = record;
        let kind = &decision.kind;
        self.metrics.decision(kind.as_str());
        if let Some(since) = decision.since_exit {
            match kind {
                Kind::QuitAccepted { .. } => {
                    self.metrics.quit_request.observe(since.as_secs_f64());
                }
                Kind::SidecarEnded { asked: true, .. } => {
                    self.metrics.sidecar_ended.observe(since.as_secs_f64());
                }
                _ => {}
            }
        }
        self.count_hold(kind);
        let entry = Entry::new(*at_ms, decision);
        log(kind, &entry);
        self.append(&entry);
        self.timeline.record(&decision.pod, entry);
    }

    fn count_hold(&self, kind: &Kind) {
        let count = |connections| u64::try_from(connections).unwrap_or(u64::MAX);
        match kind {
            Kind::HoldOpened { why, shut, tally } => {
                self.metrics.hold(why.as_str());
                self.metrics.held.observe(shut.as_secs_f64());
                let connections = count(tally.connections);
                self.metrics.held_connections.inc_by(connections);
            }
            Kind::HoldFailed { .. } => self.metrics.hold("failed"),
            Kind::StartLetGo { why, held } => {
                self.metrics.start_hold(why.as_str());
                self.metrics.start_held.observe(held.as_secs_f64());
            }
            Kind::WouldHold { tally, .. } => {
                let refused = count(tally.connections);
                self.metrics.refused_connections.inc_by(refused);
            }
            _ => {}
        }
    }

    fn read_back(&mut self, text: &str) {
        let mut bad = 0;
        for line in text.lines() {
            if self.timeline.load(line).is_err() {
                bad += 1;
            }
        }
        if bad > 0 {
            // One is what an agent leaves that was killed while it wrote.
            tracing::info!(lines = bad, "left lines of the timeline's journal out");
        }
    }

    fn append(&mut self, entry: &Entry) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let line = entry.line();
        journal.bytes += line.len() as u64;
        match journal.file.write_all(line.as_bytes()) {
            Ok(()) if journal.bytes <= JOURNAL_BYTES => {}
            Ok(()) => self.rewrite(),
            Err(error) => self.complain(&error.to_string()),
        }
    }

    /// Writes the journal anew from what is in memory.
    fn rewrite(&mut self) {
        let entries = self.timeline.entries();
        let text: String = entries.map(|entry| entry.line()).collect();
        let written = run_dir::save_text(&self.run_dir, TIMELINE, &text);
        let opened = written.map_err(|error| chain(&error)).and_then(|()| {
            let path = self.run_dir.join(TIMELINE);
            let file = OpenOptions::new().append(true).open(path);
            file.map_err(|error: io::Error| error.to_string())
        });
        match opened {
            Ok(file) => {
                let bytes = text.len() as u64;
                self.journal = Some(Journal { file, bytes });
            }
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&mut self, error: &str) {
        self.journal = None;
        self.metrics.timeline_errors.inc();
        tracing::warn!(
            error,
            run_dir = %self.run_dir.display(),
            "could not keep the timeline in the run directory; a restarted agent will not know what was decided"
        );
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

fn log(kind: &Kind, entry: &Entry) {
    let Entry {
        uid,
        pod,
        decision,
        container,
        reason,
        since_exit_ms,
        ..
    } = entry;
    let decision: &str = decision;
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                decision,
                pod,
                uid,
                container,
                since_exit_ms,
                reason,
                "decided"
            )
        };
    }
    match kind {
        Kind::NotOurs(_) | Kind::NotYet(_) | Kind::VersionTold { .. } | Kind::NotHeld(_) => {
            line!(debug);
        }
        Kind::GaveUp { .. }
        | Kind::StepFailed { .. }
        | Kind::Unsupported { .. }
        | Kind::HoldFailed { .. }
        | Kind::HoldStaysShut { .. }
        | Kind::HoldOpened {
            why: Opened::Deadline,
            ..
        }
        | Kind::BadAnnotation(_) => line!(warn),
        _ => line!(info),
    }
}
