//! Decisions, for people: a log line, metrics and an entry in the pod's
//! timeline for each, and an Event for the few that are worth one.
//!
//! It is done on the second thread: writing a line takes as long as a request,
//! and 250 exits at once make 750 of them.
//!
//! The timeline is kept in memory and, line by line, in a journal in the run
//! directory, which a restarted agent reads back. The journal is written anew
//! when it has grown: what the timeline has dropped is dropped from it as well.
//! A journal that cannot be written, as on a full disk, is written anew from
//! memory when there is room again.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::{broadcast, mpsc, oneshot};
use usher_client::{
    backoff::Backoff,
    crash_point,
    error_chain::chain,
    run_dir::{self, TIMELINE},
};
use usher_core::{
    Decision,
    base::id::PodUid,
    decision::{
        Kind,
        timeline::{Entry, Timeline},
    },
    hold::Opened,
    kube_event::EventRecorder,
    metric::value::HoldEnd,
};

use crate::{kubernetes::events::Teller, telemetry::metrics::Metrics};

/// The journal is written anew beyond this size.
const JOURNAL_BYTES: u64 = 4 * 1024 * 1024;
/// Decisions that somebody who watches may be behind; who is further behind is told how many were missed.
const BEHIND: usize = 256;
/// Questions that may wait.
const QUESTIONS: usize = 16;

/// What was decided about this pod?
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) uid: PodUid,
    pub(crate) answer: oneshot::Sender<Vec<Entry>>,
}

/// What others ask the recorder by.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) questions: mpsc::Sender<Question>,
    /// Decisions as they are recorded.
    pub(crate) entries: broadcast::Sender<Arc<Entry>>,
}

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
    trails: EventRecorder,
    teller: Teller,
    timeline: Timeline,
    journal: Option<Journal>,
    /// While there is none: when to try again.
    again: Backoff,
    /// That there is none was said.
    failing: bool,
    run_dir: PathBuf,
    desk: Desk,
    questions: mpsc::Receiver<Question>,
}

#[derive(Debug)]
struct Journal {
    file: File,
    bytes: u64,
}

impl Recorder {
    /// Reads back what an earlier agent decided. A journal that cannot be used
    /// is said to be so, and the timeline is kept in memory meanwhile.
    pub(crate) fn open(run_dir: &Path, metrics: Arc<Metrics>, teller: Teller) -> Self {
        let (asked, questions) = mpsc::channel(QUESTIONS);
        let desk = Desk {
            questions: asked,
            entries: broadcast::Sender::new(BEHIND),
        };
        let mut recorder = Self {
            desk,
            questions,
            metrics,
            trails: EventRecorder::new(teller.node_name().to_owned()),
            teller,
            timeline: Timeline::default(),
            journal: None,
            again: Backoff::default(),
            failing: false,
            run_dir: run_dir.to_owned(),
        };
        match run_dir::load_text(run_dir, TIMELINE) {
            Ok(text) => recorder.read_back(&text.unwrap_or_default()),
            Err(error) => recorder.complain(&chain(&error)),
        }
        recorder.rewrite();
        recorder
    }

    /// Where others ask.
    pub(crate) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Records decisions as long as some are made, and answers questions.
    pub(crate) async fn run(&mut self, records: &mut mpsc::Receiver<Record>) {
        loop {
            let again = self
                .journal
                .is_none()
                .then(|| self.again.due(Instant::now()));
            let again = async {
                match again {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = again => self.rewrite(),
                record = records.recv() => match record {
                    Some(record) => self.record(&record),
                    None => return,
                },
                // Never None: a sender is kept here.
                Some(Question { uid, answer }) = self.questions.recv() => {
                    // Who asked may have stopped waiting.
                    drop(answer.send(self.timeline.of(&uid).collect()));
                }
            }
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
        self.metrics.decisions.inc(kind);
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
        if self.teller.is_heard()
            && let Some(notice) = self.trails.notice(at_ms.saturating_mul(1000), decision)
        {
            self.teller.tell(notice);
        }
        self.append(&entry);
        if self.desk.entries.receiver_count() > 0 {
            // Fails only when the last one has just stopped watching.
            drop(self.desk.entries.send(Arc::new(entry.clone())));
        }
        self.timeline.record(&decision.pod, entry);
    }

    fn count_hold(&self, kind: &Kind) {
        let count = |connections| u64::try_from(connections).unwrap_or(u64::MAX);
        match kind {
            Kind::HoldReleased {
                why, shut, tally, ..
            } => {
                self.metrics.holds.inc(&HoldEnd::Opened(*why));
                self.metrics.held.observe(shut.as_secs_f64());
                let connections = count(tally.connections);
                self.metrics.held_connections.inc_by(connections);
            }
            Kind::HoldFailed(_) => self.metrics.holds.inc(&HoldEnd::Failed),
            Kind::StartReleased { why, held } => {
                self.metrics.start_holds.inc(why);
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
            // It is in memory, and is written when the journal is made anew.
            return;
        };
        let line = entry.line();
        journal.bytes += line.len() as u64;
        crash_point::reach("journal-due", "");
        let written = journal.file.write_all(line.as_bytes());
        crash_point::reach("journal-written", "");
        match written {
            Ok(()) if journal.bytes <= JOURNAL_BYTES => {}
            Ok(()) => self.rewrite(),
            Err(error) => self.complain(&error.to_string()),
        }
    }

    /// Writes the journal anew from what is in memory.
    fn rewrite(&mut self) {
        self.again.tried(Instant::now());
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
                if std::mem::take(&mut self.failing) {
                    tracing::info!("keeping the timeline in the run directory again");
                }
            }
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&mut self, error: &str) {
        self.journal = None;
        self.metrics.timeline_errors.inc();
        if std::mem::replace(&mut self.failing, true) {
            return;
        }
        tracing::warn!(
            error,
            run_dir = %self.run_dir.display(),
            "could not keep the timeline in the run directory, trying again; an agent restarted meanwhile will not know what was decided"
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
        | Kind::HoldStaysClosed { .. }
        | Kind::HoldReleased {
            why: Opened::Deadline,
            ..
        }
        | Kind::InvalidAnnotation(_) => line!(warn),
        _ => line!(info),
    }
}
