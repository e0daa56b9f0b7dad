//! A stream of decisions, from the agent or from its timeline's file.

use std::{collections::VecDeque, path::Path};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use usher_core::{admin::WatchLine, decision::timeline::Entry};

use super::journal::Journal;
use crate::{data_source::Client, failure::Failure};

/// A longer line is invalid.
const LONGEST: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Lines {
    from: From,
    /// Entries of the timeline's file that are printed first.
    history: VecDeque<Entry>,
    /// Entries of `history` that the source may repeat.
    replayed: Vec<Entry>,
    ready: VecDeque<WatchLine>,
}

#[derive(Debug)]
enum From {
    Agent { body: Incoming, rest: Vec<u8> },
    Journal(Journal),
}

impl Lines {
    /// New decisions from the agent.
    pub(crate) async fn of_agent(agent: &Client) -> Result<Self, Failure> {
        let body = agent.stream("/v1/watch").await?;
        let rest = Vec::new();
        Ok(Self {
            from: From::Agent { body, rest },
            history: VecDeque::new(),
            replayed: Vec::new(),
            ready: VecDeque::new(),
        })
    }

    /// New entries of the timeline's file.
    pub(super) fn of_journal(run_dir: &Path) -> Result<Self, Failure> {
        Ok(Self {
            from: From::Journal(Journal::open(run_dir)?),
            history: VecDeque::new(),
            replayed: Vec::new(),
            ready: VecDeque::new(),
        })
    }

    /// Returns these entries first, and skips them when the source repeats them.
    pub(super) fn replay(&mut self, entries: Vec<Entry>) {
        self.replayed.clone_from(&entries);
        self.history = entries.into();
    }

    /// Cancel safe: a dropped future loses no line.
    pub(crate) async fn next(&mut self) -> Result<WatchLine, Failure> {
        loop {
            if let Some(entry) = self.history.pop_front() {
                return Ok(WatchLine::Entry(entry));
            }
            while let Some(line) = self.ready.pop_front() {
                match &line {
                    WatchLine::Entry(entry) if self.replayed.contains(entry) => {}
                    _ => return Ok(line),
                }
            }
            match &mut self.from {
                From::Journal(journal) => {
                    let entries = journal.next().await?;
                    self.ready.extend(entries.into_iter().map(WatchLine::Entry));
                }
                From::Agent { body, rest } => {
                    let frame = body.frame().await;
                    let frame = frame.and_then(Result::ok).ok_or_else(gone)?;
                    if let Ok(data) = frame.into_data() {
                        rest.extend_from_slice(&data);
                    }
                    self.ready.extend(whole(rest)?);
                }
            }
        }
    }
}

fn gone() -> Failure {
    Failure::unavailable("the agent has gone; usher status shows whether another one came")
}

/// Takes the complete lines.
fn whole(rest: &mut Vec<u8>) -> Result<Vec<WatchLine>, Failure> {
    let mut lines = Vec::new();
    let end = rest.iter().rposition(|byte| *byte == b'\n');
    if let Some(end) = end {
        let after = rest.split_off(end + 1);
        for line in rest
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line = serde_json::from_slice(line).map_err(|error| {
                Failure::unavailable(format!("the agent's answer is not understood: {error}"))
            })?;
            lines.push(line);
        }
        *rest = after;
    }
    if rest.len() > LONGEST {
        return Err(Failure::unavailable("the agent's answer is not understood"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn history_is_printed_first_and_once() {
        use std::io::Write;

        let entry = |at_ms: u64| {
            format!(
                "{{\"at_ms\":{at_ms},\"uid\":\"u\",\"pod\":\"a/b\",\"decision\":\"waiting\",\"reason\":\"r\"}}\n"
            )
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(usher_client::run_dir::TIMELINE);
        std::fs::write(&path, "").unwrap();
        let mut lines = Lines::of_journal(folder.path()).unwrap();
        let parsed = |at_ms| serde_json::from_str::<Entry>(&entry(at_ms)).unwrap();
        lines.replay(vec![parsed(1), parsed(2)]);
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all((entry(2) + &entry(3)).as_bytes()).unwrap();
        for at_ms in 1..=3 {
            assert_eq!(lines.next().await.unwrap(), WatchLine::Entry(parsed(at_ms)));
        }
    }

    #[test]
    fn lines_come_in_pieces() {
        let text = b"{\"missed\":1}\n{\"missed\":2}\n";
        for cut in 0..text.len() {
            let mut rest = text[..cut].to_vec();
            let mut lines = whole(&mut rest).unwrap();
            rest.extend_from_slice(&text[cut..]);
            lines.extend(whole(&mut rest).unwrap());
            assert_eq!(lines.len(), 2, "cut at {cut}");
            assert_eq!(lines[1], WatchLine::Missed { missed: 2 });
        }
        assert!(whole(&mut b"nothing\n".to_vec()).is_err());
        assert!(whole(&mut vec![b'x'; LONGEST + 1]).is_err());
    }
}
