//! What was decided about each pod, for people who ask later: in memory, and as
//! lines of a journal that a restarted agent reads back.
//!
//! Both are bounded: the newest decisions of a pod, the pods that were last
//! heard of.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
};

use serde::{Deserialize, Serialize};

use crate::{Decision, base::id::PodUid, decision};

/// Entries that are kept of one pod.
const ENTRIES: usize = 32;
/// Pods that are kept: those of a full node, and as many that are gone.
const PODS: usize = 512;
/// Entries that are kept in all: some 1.5 MB.
const TOTAL: usize = 8192;

/// One decision, when it was made. Also one line of the journal, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub at_ms: u64,
    /// UID of the pod.
    pub uid: String,
    /// `namespace/name` of the pod, or its UID before the kubelet listed it.
    pub pod: String,
    /// The decision's name, as in the log.
    pub decision: Cow<'static, str>,
    /// The container that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Why, in words.
    pub reason: String,
    /// Milliseconds since the last app container ended, where that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_exit_ms: Option<f64>,
}

/// The newest decisions about the pods of a node.
#[derive(Debug, Default)]
pub struct Timeline {
    pods: BTreeMap<PodUid, Pod>,
    total: usize,
    /// Of everything that is kept, as [`Pod::heard`].
    latest: u64,
}

/// What is kept of one pod: what its entries have in common stands here once.
#[derive(Debug, Default)]
struct Pod {
    name: Box<str>,
    notes: VecDeque<Note>,
    /// Grows with each decision about whichever pod: milliseconds as long as the clock goes on.
    heard: u64,
}

#[derive(Debug)]
struct Note {
    at_ms: u64,
    decision: Cow<'static, str>,
    container: Option<Box<str>>,
    reason: Box<str>,
    since_exit_ms: Option<f64>,
}

/// A line of a journal that is none.
#[derive(Debug, thiserror::Error)]
pub enum BadLine {
    /// It is no entry.
    #[error("not an entry of a timeline")]
    Form(#[from] serde_json::Error),
    /// Its UID is not one.
    #[error("an entry of a timeline without a pod")]
    Uid(#[from] crate::base::id::InvalidId),
}

impl Entry {
    /// A decision that is made now.
    pub fn new(at_ms: u64, decision: &Decision) -> Self {
        let since_exit = decision.since_exit;
        Self {
            at_ms,
            uid: decision.pod.to_string(),
            pod: decision.pod_name.clone(),
            decision: Cow::Borrowed(decision.kind.as_str()),
            container: decision.container.clone(),
            reason: decision.kind.reason(),
            since_exit_ms: since_exit.map(|since| (since.as_secs_f64() * 1e6).round() / 1e3),
        }
    }

    /// The line of the journal, with its line feed.
    pub fn line(&self) -> String {
        // Texts and numbers: nothing in it can fail to be written.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

impl Timeline {
    /// Reads a line of a journal back.
    ///
    /// # Errors
    /// [`BadLine`]; the last line of an agent that was killed may be half.
    pub fn load(&mut self, line: &str) -> Result<(), BadLine> {
        let mut entry: Entry = serde_json::from_str(line)?;
        let uid = PodUid::parse(&entry.uid)?;
        let known = decision::NAMES.iter().find(|name| **name == entry.decision);
        if let Some(name) = known {
            entry.decision = Cow::Borrowed(name);
        }
        let heard = entry.at_ms;
        self.latest = self.latest.max(heard);
        self.keep(uid, entry, heard);
        Ok(())
    }

    /// Keeps a decision.
    pub fn record(&mut self, uid: &PodUid, entry: Entry) {
        // A clock that is set back does not make old what comes after it.
        self.latest = entry.at_ms.max(self.latest.saturating_add(1));
        self.keep(uid.clone(), entry, self.latest);
    }

    /// What is kept of one pod, oldest first.
    pub fn of(&self, uid: &PodUid) -> impl Iterator<Item = Entry> {
        let pod = self.pods.get_key_value(uid);
        pod.into_iter().flat_map(|(uid, pod)| pod.entries(uid))
    }

    /// Everything that is kept, pod by pod.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.pods.iter().flat_map(|(uid, pod)| pod.entries(uid))
    }

    fn keep(&mut self, uid: PodUid, entry: Entry, heard: u64) {
        let full = self.pods.len() >= PODS && !self.pods.contains_key(&uid);
        if full || self.total >= TOTAL {
            self.drop_oldest();
        }
        let pod = self.pods.entry(uid).or_default();
        pod.heard = heard;
        if pod.notes.len() == ENTRIES {
            pod.notes.pop_front();
            self.total -= 1;
        }
        // The first ones have the UID for a name.
        if *pod.name != *entry.pod {
            pod.name = entry.pod.into();
        }
        pod.notes.push_back(Note {
            at_ms: entry.at_ms,
            decision: entry.decision,
            container: entry.container.map(Into::into),
            reason: entry.reason.into(),
            since_exit_ms: entry.since_exit_ms,
        });
        self.total += 1;
    }

    /// Drops the pod that was heard of least recently.
    fn drop_oldest(&mut self) {
        let oldest = self.pods.iter().min_by_key(|(_uid, pod)| pod.heard);
        if let Some(uid) = oldest.map(|(uid, _pod)| uid.clone()) {
            let dropped = self.pods.remove(&uid);
            self.total -= dropped.map_or(0, |pod| pod.notes.len());
        }
    }
}

impl Pod {
    fn entries(&self, uid: &PodUid) -> impl Iterator<Item = Entry> {
        self.notes.iter().map(move |note| Entry {
            at_ms: note.at_ms,
            uid: uid.to_string(),
            pod: self.name.to_string(),
            decision: note.decision.clone(),
            container: note.container.as_deref().map(str::to_owned),
            reason: note.reason.to_string(),
            since_exit_ms: note.since_exit_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Kind;

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
            since_exit: Some(std::time::Duration::from_micros(1500)),
        };
        Entry::new(at_ms, &decision)
    }

    #[test]
    fn a_journal_is_read_back() {
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
        assert_eq!(read.of(&uid(1)).count(), 2);
        assert_eq!(read.of(&uid(1)).next().unwrap().since_exit_ms, Some(1.5));
    }

    #[test]
    fn all_of_a_pod_is_told_under_the_name_that_it_was_last_known_by() {
        let mut timeline = Timeline::default();
        let nameless = Entry {
            pod: uid(1).to_string(),
            ..entry(1, 10)
        };
        let names = |timeline: &Timeline| -> Vec<String> {
            timeline.of(&uid(1)).map(|entry| entry.pod).collect()
        };
        timeline.record(&uid(1), nameless);
        assert_eq!(names(&timeline), [uid(1).as_str()]);
        timeline.record(&uid(1), entry(1, 11));
        timeline.record(&uid(1), entry(1, 12));
        assert_eq!(names(&timeline), ["shop/report"; 3]);
    }

    #[test]
    fn it_is_bounded() {
        let mut timeline = Timeline::default();
        for at in 0..100 {
            timeline.record(&uid(1), entry(1, at));
        }
        assert_eq!(timeline.of(&uid(1)).count(), ENTRIES);
        assert_eq!(timeline.of(&uid(1)).next().unwrap().at_ms, 68);
        for number in 2..2000 {
            timeline.record(&uid(number), entry(number, number + 100));
        }
        assert_eq!(timeline.entries().count(), PODS);
        assert_eq!(timeline.of(&uid(1)).count(), 0, "least recently heard of");
        for at in 0..40_000 {
            timeline.record(&uid(at % 500), entry(at % 500, at));
        }
        assert!(timeline.entries().count() <= TOTAL);
        assert_eq!(timeline.entries().count(), timeline.total);
    }

    #[test]
    fn after_the_clock_was_set_back_the_newest_are_kept_as_well() {
        let mut timeline = Timeline::default();
        for number in 0..600 {
            timeline.record(&uid(number), entry(number, 1_000_000 + number));
        }
        for number in 1000..1600 {
            timeline.record(&uid(number), entry(number, number));
            assert_eq!(timeline.of(&uid(number)).count(), 1);
            assert_eq!(timeline.of(&uid(number.max(1001) - 1)).count(), 1);
        }
        assert_eq!(timeline.of(&uid(599)).count(), 0, "it was the oldest");
    }

    #[test]
    fn half_a_line_is_no_entry() {
        let line = entry(1, 1).line();
        let mut timeline = Timeline::default();
        for end in 0..line.len() - 1 {
            assert!(timeline.load(&line[..end]).is_err());
        }
        assert!(timeline.load(r#"{"uid":"../x"}"#).is_err());
        assert_eq!(timeline.entries().count(), 0);
    }
}
