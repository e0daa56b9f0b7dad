//! The timeline: the decisions about each pod, in memory and as lines of a journal that a restarted agent reads back.
//!
//! Both are bounded: by entries of a pod, and by pods and bytes, for which the least recently used pod is dropped. A pod
//! determines how long reasons are, for instance by the names of its containers.

mod detail;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

pub use self::detail::Detail;
use crate::{Decision, base::id::PodUid};

const ENTRIES_PER_POD: usize = 32;
/// The pods of a full node, and as many that have ended.
const PODS: usize = 512;
/// About 1.5 MB with reasons of usual length.
const TOTAL_ENTRIES: usize = 8192;
const TOTAL_REASON_BYTES: usize = 2 << 20;
const REASON_BYTES: usize = 1024;

/// One decision and its time. It is also one line of the journal, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub at_ms: u64,
    pub uid: String,
    /// `namespace/name` of the pod, or its UID before the kubelet listed it.
    pub pod: String,
    /// The decision as data: its name in `decision`, and its figures.
    #[serde(flatten)]
    pub detail: Detail,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The reason as a sentence for people. Programs use `detail`.
    pub reason: String,
    /// Milliseconds since the last app container ended, if usher observed its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_exit_ms: Option<f64>,
}

/// The newest decisions about the pods of a node.
#[derive(Debug, Default)]
pub struct Timeline {
    pods: BTreeMap<PodUid, Pod>,
    total: usize,
    reason_bytes: usize,
    /// The greatest [`Pod::last_used`].
    latest: u64,
}

/// The entries of one pod, without the UID and the name that they share.
#[derive(Debug, Default)]
struct Pod {
    name: Box<str>,
    notes: VecDeque<Note>,
    /// Milliseconds. It grows with each decision about any pod, also when the clock is set back.
    last_used: u64,
}

#[derive(Debug)]
struct Note {
    at_ms: u64,
    detail: Detail,
    container: Option<Box<str>>,
    reason: Box<str>,
    since_exit_ms: Option<f64>,
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidLine {
    #[error("invalid timeline entry")]
    Json(#[from] serde_json::Error),
    #[error("invalid pod UID in a timeline entry")]
    Uid(#[from] crate::base::id::InvalidId),
}

impl Entry {
    pub fn new(at_ms: u64, decision: &Decision) -> Self {
        let since_exit = decision.since_exit;
        Self {
            at_ms,
            uid: decision.pod.to_string(),
            pod: decision.pod_name.clone(),
            detail: Detail::from(&decision.kind),
            container: decision.container.clone(),
            reason: shortened(decision.kind.reason()),
            since_exit_ms: since_exit.map(|since| (since.as_secs_f64() * 1e6).round() / 1e3),
        }
    }

    /// The line of the journal, with its line feed.
    pub fn line(&self) -> String {
        // Strings and numbers only: serialization cannot fail.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

impl Timeline {
    /// Adds a line of the journal.
    ///
    /// # Errors
    /// [`InvalidLine`]; an agent that was killed may leave half a line at the end.
    pub fn load(&mut self, line: &str) -> Result<(), InvalidLine> {
        let entry: Entry = serde_json::from_str(line)?;
        let uid = PodUid::parse(&entry.uid)?;
        let last_used = entry.at_ms;
        self.latest = self.latest.max(last_used);
        self.keep(uid, entry, last_used);
        Ok(())
    }

    pub fn record(&mut self, uid: &PodUid, entry: Entry) {
        // After the clock is set back, a new entry still counts as the latest.
        self.latest = entry.at_ms.max(self.latest.saturating_add(1));
        self.keep(uid.clone(), entry, self.latest);
    }

    /// The entries of one pod, oldest first.
    pub fn of_pod(&self, uid: &PodUid) -> impl Iterator<Item = Entry> {
        let pod = self.pods.get_key_value(uid);
        pod.into_iter().flat_map(|(uid, pod)| pod.entries(uid))
    }

    /// All entries, pod by pod.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.pods.iter().flat_map(|(uid, pod)| pod.entries(uid))
    }

    fn keep(&mut self, uid: PodUid, entry: Entry, last_used: u64) {
        let reason: Box<str> = shortened(entry.reason).into();
        let full = self.pods.len() >= PODS && !self.pods.contains_key(&uid);
        if full || self.total >= TOTAL_ENTRIES {
            self.drop_oldest();
        }
        self.reason_bytes += reason.len();
        while self.reason_bytes > TOTAL_REASON_BYTES && !self.pods.is_empty() {
            self.drop_oldest();
        }
        let pod = self.pods.entry(uid).or_default();
        pod.last_used = last_used;
        if pod.notes.len() == ENTRIES_PER_POD {
            let oldest = pod.notes.pop_front();
            self.reason_bytes -= oldest.map_or(0, |note| note.reason.len());
            self.total -= 1;
        }
        // Entries from before the kubelet listed the pod have the UID as their name.
        if *pod.name != *entry.pod {
            pod.name = entry.pod.into();
        }
        pod.notes.push_back(Note {
            at_ms: entry.at_ms,
            detail: entry.detail,
            container: entry.container.map(Into::into),
            reason,
            since_exit_ms: entry.since_exit_ms,
        });
        self.total += 1;
    }

    /// Drops the least recently used pod.
    fn drop_oldest(&mut self) {
        let oldest = self.pods.iter().min_by_key(|(_uid, pod)| pod.last_used);
        if let Some(uid) = oldest.map(|(uid, _pod)| uid.clone()) {
            let dropped = self.pods.remove(&uid).unwrap_or_default();
            self.total -= dropped.notes.len();
            let reasons = dropped.notes.iter().map(|note| note.reason.len());
            self.reason_bytes -= reasons.sum::<usize>();
        }
    }
}

/// Ends a long reason with an ellipsis.
fn shortened(mut reason: String) -> String {
    const MARK: &str = "…";
    if reason.len() > REASON_BYTES {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES - MARK.len()));
        reason.push_str(MARK);
    }
    reason
}

impl Pod {
    fn entries(&self, uid: &PodUid) -> impl Iterator<Item = Entry> {
        self.notes.iter().map(move |note| Entry {
            at_ms: note.at_ms,
            uid: uid.to_string(),
            pod: self.name.to_string(),
            detail: note.detail.clone(),
            container: note.container.as_deref().map(str::to_owned),
            reason: note.reason.to_string(),
            since_exit_ms: note.since_exit_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        decision::{self, Kind},
        hold::{Released, Tally},
    };

    fn uid(number: u64) -> PodUid {
        PodUid::parse(&format!("{number:032x}")).unwrap()
    }

    fn entry(number: u64, at_ms: u64) -> Entry {
        let decision = Decision {
            pod: uid(number),
            pod_name: "shop/report".to_owned(),
            container: Some("istio-proxy".to_owned()),
            kind: Kind::PodFinished {
                sidecars: Vec::new(),
            },
            since_exit: Some(Duration::from_micros(1500)),
        };
        Entry::new(at_ms, &decision)
    }

    #[test]
    fn journal_is_read_back() {
        let mut written = Timeline::default();
        let mut journal = String::new();
        for (number, at_ms) in [(1, 10), (2, 11), (1, 12)] {
            let entry = entry(number, at_ms);
            journal.push_str(&entry.line());
            written.record(&uid(number), entry);
        }
        let mut read = Timeline::default();
        for line in journal.lines() {
            read.load(line).unwrap();
        }
        let all = |timeline: &Timeline| timeline.entries().collect::<Vec<_>>();
        assert_eq!(all(&read), all(&written));
        assert_eq!(read.of_pod(&uid(1)).count(), 2);
        assert_eq!(
            read.of_pod(&uid(1)).next().unwrap().since_exit_ms,
            Some(1.5)
        );
    }

    #[test]
    fn entries_of_a_pod_have_its_newest_name() {
        let mut timeline = Timeline::default();
        let nameless = Entry {
            pod: uid(1).to_string(),
            ..entry(1, 10)
        };
        let names = |timeline: &Timeline| -> Vec<String> {
            timeline.of_pod(&uid(1)).map(|entry| entry.pod).collect()
        };
        timeline.record(&uid(1), nameless);
        assert_eq!(names(&timeline), [uid(1).as_str()]);
        timeline.record(&uid(1), entry(1, 11));
        timeline.record(&uid(1), entry(1, 12));
        assert_eq!(names(&timeline), ["shop/report"; 3]);
    }

    /// A pod with many sidecars of long names.
    #[test]
    fn reasons_are_bounded() {
        let names = vec!["ä".repeat(100); 500];
        let decision = Decision {
            pod: uid(1),
            pod_name: "shop/report".to_owned(),
            container: None,
            kind: Kind::PodFinished { sidecars: names },
            since_exit: None,
        };
        let long = Entry::new(1, &decision);
        assert!((1000..=REASON_BYTES).contains(&long.reason.len()));
        assert!(long.reason.ends_with("ä…"));
        let mut timeline = Timeline::default();
        for at in 0..20_000 {
            timeline.record(&uid(at % 500), long.clone());
        }
        let kept: usize = timeline.entries().map(|entry| entry.reason.len()).sum();
        assert_eq!(kept, timeline.reason_bytes);
        assert!((TOTAL_REASON_BYTES / 2..=TOTAL_REASON_BYTES).contains(&kept));
        assert_eq!(timeline.entries().count(), timeline.total);
    }

    #[test]
    fn timeline_is_bounded() {
        let mut timeline = Timeline::default();
        for at in 0..100 {
            timeline.record(&uid(1), entry(1, at));
        }
        assert_eq!(timeline.of_pod(&uid(1)).count(), ENTRIES_PER_POD);
        assert_eq!(timeline.of_pod(&uid(1)).next().unwrap().at_ms, 68);
        for number in 2..2000 {
            timeline.record(&uid(number), entry(number, number + 100));
        }
        assert_eq!(timeline.entries().count(), PODS);
        assert_eq!(timeline.of_pod(&uid(1)).count(), 0, "least recently used");
        for at in 0..40_000 {
            timeline.record(&uid(at % 500), entry(at % 500, at));
        }
        assert!(timeline.entries().count() <= TOTAL_ENTRIES);
        assert_eq!(timeline.entries().count(), timeline.total);
    }

    #[test]
    fn newest_entries_are_kept_after_the_clock_was_set_back() {
        let mut timeline = Timeline::default();
        for number in 0..600 {
            timeline.record(&uid(number), entry(number, 1_000_000 + number));
        }
        for number in 1000..1600 {
            timeline.record(&uid(number), entry(number, number));
            assert_eq!(timeline.of_pod(&uid(number)).count(), 1);
            assert_eq!(timeline.of_pod(&uid(number.max(1001) - 1)).count(), 1);
        }
        assert_eq!(
            timeline.of_pod(&uid(599)).count(),
            0,
            "the oldest pod is dropped"
        );
    }

    #[test]
    fn truncated_line_is_rejected() {
        let line = entry(1, 1).line();
        let mut timeline = Timeline::default();
        for end in 0..line.len() - 1 {
            assert!(timeline.load(&line[..end]).is_err());
        }
        assert!(timeline.load(r#"{"uid":"../x"}"#).is_err());
        assert_eq!(timeline.entries().count(), 0);
    }

    fn parse(line: &str) -> Entry {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn every_decision_is_known_as_data_and_written_by_name() {
        for name in decision::NAMES {
            let detail = Detail::named(name);
            assert!(!matches!(detail, Detail::Unknown { .. }), "{name}");
            assert_eq!(detail.name(), *name);
            let entry = Entry {
                detail,
                ..entry(1, 10)
            };
            let json: serde_json::Value = serde_json::from_str(&entry.line()).unwrap();
            assert_eq!(json["decision"], *name);
            assert_eq!(parse(&entry.line()), entry);
        }
    }

    #[test]
    fn figures_are_written_and_parsed() {
        let kind = Kind::HoldReleased {
            why: Released::Deadline,
            held: Duration::from_secs(30),
            adopted: false,
            tally: Tally {
                connections: 2,
                ..Tally::default()
            },
        };
        let detail = Detail::from(&kind);
        assert_eq!(detail.name(), kind.into_str());
        let entry = Entry {
            detail,
            ..entry(1, 10)
        };
        let json: serde_json::Value = serde_json::from_str(&entry.line()).unwrap();
        assert_eq!(
            (&json["cause"], &json["held_ms"], &json["connections"]),
            (&"deadline".into(), &30_000.into(), &2.into())
        );
        assert_eq!(parse(&entry.line()), entry);
    }

    /// Lines of an agent that wrote no figures, and of one that knows more.
    #[test]
    fn lines_of_other_versions_are_parsed() {
        let line = |decision: &str| {
            format!(r#"{{"at_ms":1,"uid":"u","pod":"a/b","reason":"r",{decision}}}"#)
        };
        let old = parse(&line(r#""decision":"hold-released""#));
        assert_eq!(old.detail, Detail::named("hold-released"));
        for unknown in [
            r#""decision":"hold-released","cause":"tomorrow""#,
            r#""decision":"other""#,
        ] {
            let entry = parse(&line(unknown));
            assert!(matches!(entry.detail, Detail::Unknown { .. }), "{entry:?}");
            let written = parse(&entry.line());
            assert_eq!(written.detail.name(), entry.detail.name());
        }
    }
}
