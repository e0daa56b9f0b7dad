//! Records decisions: a log line, metrics and a timeline entry for each, and an Event for some.
//!
//! The recorder runs on the service thread: one line takes as long as a request, and 250 exits at once make 750 lines.
//!
//! The timeline is in memory and in a journal in the run directory, which a restarted agent reads. The recorder
//! rewrites the journal from memory when it is too long, and after a failed write, such as on a full disk.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use tokio::sync::{broadcast, mpsc, oneshot};
use usher_client::{
    backoff::{self, Backoff},
    crash_point,
    error_chain::chain,
    run_dir::{self, TIMELINE},
    wall_clock,
};
use usher_core::{
    Decision,
    base::id::PodUid,
    decision::{
        Kind,
        timeline::{Entry, Timeline},
    },
    hold::Released,
    kube_event::EventRecorder,
    metric::value::{HoldResult, StartHoldResult},
};

use crate::telemetry::reporter::Reporter;

/// Length of the journal from which on it is rewritten. It may be twice as long as after the last rewrite, so that not
/// each decision rewrites it.
const JOURNAL_BYTES: u64 = 4 * 1024 * 1024;
/// Decisions that a watching client may lag behind. A slower client receives the number of missed decisions.
const BEHIND: usize = 256;
const QUERIES: usize = 16;

#[derive(Debug)]
pub(crate) struct TimelineQuery {
    pub(crate) uid: PodUid,
    pub(crate) reply: oneshot::Sender<Vec<Entry>>,
}

#[derive(Debug, Clone)]
pub(crate) struct RecorderHandle {
    pub(crate) queries: mpsc::Sender<TimelineQuery>,
    pub(crate) entries: broadcast::Sender<Arc<Entry>>,
}

#[derive(Debug)]
pub(crate) struct Record {
    at_ms: u64,
    decision: Decision,
}

impl Record {
    pub(crate) fn now(decision: Decision) -> Self {
        Self {
            at_ms: wall_clock::now_ms(),
            decision,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Recorder {
    reporter: Reporter,
    trails: EventRecorder,
    timeline: Timeline,
    /// None after a failed write, until the next rewrite.
    journal: Option<Journal>,
    backoff: Backoff,
    failure_reported: bool,
    run_dir: PathBuf,
    handle: RecorderHandle,
    queries: mpsc::Receiver<TimelineQuery>,
}

#[derive(Debug)]
struct Journal {
    file: File,
    bytes: u64,
    limit: u64,
}

impl Recorder {
    /// Reads the decisions of an earlier agent from the journal. If the journal is unusable, reports it and keeps the
    /// timeline in memory only.
    pub(crate) fn open(run_dir: &Path, reporter: Reporter) -> Self {
        let (queries, received) = mpsc::channel(QUERIES);
        let handle = RecorderHandle {
            queries,
            entries: broadcast::Sender::new(BEHIND),
        };
        let mut recorder = Self {
            handle,
            queries: received,
            trails: EventRecorder::new(reporter.events.node_name().to_owned()),
            reporter,
            timeline: Timeline::default(),
            journal: None,
            backoff: Backoff::default(),
            failure_reported: false,
            run_dir: run_dir.to_owned(),
        };
        match run_dir::load_text(run_dir, TIMELINE) {
            Ok(text) => recorder.read_back(&text.unwrap_or_default()),
            Err(error) => {
                recorder.journal_failed(&chain(&error));
                run_dir::set_aside(run_dir, TIMELINE);
            }
        }
        recorder.rewrite();
        recorder
    }

    pub(crate) fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }

    /// Records decisions and replies to queries until the channel is closed.
    pub(crate) async fn run(&mut self, records: &mut mpsc::UnboundedReceiver<Record>) {
        loop {
            let due = self
                .journal
                .is_none()
                .then(|| self.backoff.due(Instant::now()));
            tokio::select! {
                biased;
                () = backoff::wait_until(due) => self.rewrite(),
                record = records.recv() => match record {
                    Some(record) => self.record(&record),
                    None => return,
                },
                // Never None: the recorder holds a sender.
                Some(TimelineQuery { uid, reply }) = self.queries.recv() => {
                    // Fails if the client has stopped waiting.
                    drop(reply.send(self.timeline.of_pod(&uid).collect()));
                }
            }
        }
    }

    /// Records the remaining decisions after the end of the runtime.
    pub(crate) fn drain(&mut self, records: &mut mpsc::UnboundedReceiver<Record>) {
        while let Some(record) = records.blocking_recv() {
            self.record(&record);
        }
    }

    fn record(&mut self, record: &Record) {
        let Record { at_ms, decision } = record;
        let kind = &decision.kind;
        let metrics = &self.reporter.metrics;
        metrics.decisions.inc(kind);
        if let Some(since) = decision.since_exit {
            match kind {
                Kind::QuitAccepted { .. } => {
                    metrics.quit_request.observe(since.as_secs_f64());
                }
                Kind::SidecarEnded {
                    requested: true, ..
                } => {
                    metrics.sidecar_ended.observe(since.as_secs_f64());
                }
                _ => {}
            }
        }
        self.count_hold(kind);
        let entry = Entry::new(*at_ms, decision);
        log(kind, &entry);
        if self.reporter.events.is_enabled()
            && let Some(notice) = self.trails.notice(at_ms.saturating_mul(1000), decision)
        {
            self.reporter.events.send(notice);
        }
        self.append(&entry);
        let entries = &self.handle.entries;
        if entries.receiver_count() > 0 {
            // Fails only when the last client has just stopped watching.
            drop(entries.send(Arc::new(entry.clone())));
        }
        self.timeline.record(&decision.pod, entry);
    }

    fn count_hold(&self, kind: &Kind) {
        let metrics = &self.reporter.metrics;
        let count = |connections| u64::try_from(connections).unwrap_or(u64::MAX);
        match kind {
            Kind::HoldReleased {
                why, held, tally, ..
            } => {
                metrics.holds.inc(&HoldResult::Released(*why));
                metrics.held.observe(held.as_secs_f64());
                metrics.held_connections.inc_by(count(tally.connections));
                metrics.dropped_copies.inc_by(count(tally.lost));
            }
            Kind::HoldFailed(_) => metrics.holds.inc(&HoldResult::Failed),
            Kind::StartReleased { why, held } => {
                metrics.start_holds.inc(&StartHoldResult(*why));
                metrics.start_held.observe(held.as_secs_f64());
            }
            Kind::LingerReleased { why, held } | Kind::PreStopReleased { why, held } => {
                metrics.lingers.inc(why);
                metrics.lingered.observe(held.as_secs_f64());
            }
            Kind::WouldHold { tally, .. } => {
                let refused = count(tally.connections);
                metrics.refused_connections.inc_by(refused);
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
            // An agent that was killed during a write leaves a truncated line.
            tracing::info!(
                lines = bad,
                "skipped invalid lines of the timeline's journal"
            );
        }
    }

    fn append(&mut self, entry: &Entry) {
        let Some(journal) = &mut self.journal else {
            // The entry is in memory, and the next rewrite adds it to the journal.
            return;
        };
        let line = entry.line();
        journal.bytes += line.len() as u64;
        crash_point::reach("journal-due", "");
        let written = journal.file.write_all(line.as_bytes());
        crash_point::reach("journal-written", "");
        match written {
            Ok(()) if journal.bytes <= journal.limit => {}
            Ok(()) => self.rewrite(),
            Err(error) => self.journal_failed(&error.to_string()),
        }
    }

    /// Rewrites the journal from memory.
    fn rewrite(&mut self) {
        self.backoff.tried(Instant::now());
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
                let limit = JOURNAL_BYTES.max(bytes * 2);
                self.journal = Some(Journal { file, bytes, limit });
                if std::mem::take(&mut self.failure_reported) {
                    tracing::info!("wrote the timeline's journal again");
                }
            }
            Err(error) => self.journal_failed(&error),
        }
    }

    fn journal_failed(&mut self, error: &str) {
        self.journal = None;
        self.reporter.metrics.timeline_errors.inc();
        if std::mem::replace(&mut self.failure_reported, true) {
            return;
        }
        tracing::warn!(
            error,
            run_dir = %self.run_dir.display(),
            "could not write the timeline's journal, retrying; an agent restarted meanwhile does not know the decisions"
        );
    }
}

fn log(kind: &Kind, entry: &Entry) {
    let Entry {
        uid,
        pod,
        detail,
        container,
        reason,
        since_exit_ms,
        ..
    } = entry;
    let decision = detail.name();
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
        Kind::NotApplicable(_)
        | Kind::Waiting(_)
        | Kind::VersionReported { .. }
        | Kind::NotHeld(_) => {
            line!(debug);
        }
        Kind::GaveUp { .. }
        | Kind::StepFailed { .. }
        | Kind::RuntimeUnsupported { .. }
        | Kind::HoldFailed(_)
        | Kind::Quarantined(_)
        | Kind::HoldExtended { .. }
        | Kind::HoldReleased {
            why: Released::Deadline,
            ..
        }
        | Kind::InvalidAnnotation(_) => line!(warn),
        _ => line!(info),
    }
}
