//! Follows the timeline's file. An agent appends to it, and replaces it by renaming when the agent starts and when the
//! file is large.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use usher_client::{error_chain::chain, run_dir};
use usher_core::decision::timeline::Entry;
use usher_sys::files::directory::Directory;

use crate::failure::Failure;

const CHUNK: u64 = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    changes: Directory,
    file: Option<Reading>,
    /// The newest lines, to skip known lines of a replaced file.
    last: Last,
}

#[derive(Debug)]
struct Reading {
    file: File,
    /// The identity of the file.
    inode: u64,
    /// How many unread bytes the file had when it was opened. They may have known lines; what is appended is new, also
    /// after a step of the clock.
    earlier: u64,
    rest: Vec<u8>,
}

/// The newest time, and the lines of that time.
#[derive(Debug, Default)]
struct Last {
    at_ms: u64,
    lines: Vec<String>,
}

impl Journal {
    pub(super) fn open(run_dir: &Path) -> Result<Self, Failure> {
        let changes = Directory::open_for_writes(run_dir).map_err(|error| {
            Failure::unavailable(format!("{}; there is no timeline", chain(&error)))
        })?;
        let mut journal = Self {
            path: run_dir.join(run_dir::TIMELINE),
            changes,
            file: None,
            last: Last::default(),
        };
        // Skip the present entries.
        loop {
            let (read, more) = journal.read().map_err(|error| journal.failed(&error))?;
            drop(read);
            if !more {
                return Ok(journal);
            }
        }
    }

    pub(super) async fn next(&mut self) -> Result<Vec<Entry>, Failure> {
        loop {
            let (entries, more) = self.read().map_err(|error| self.failed(&error))?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            if !more {
                let changed = self.changes.changed().await;
                changed.map_err(|error| Failure::unavailable(chain(&error)))?;
            }
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::unavailable(format!("reading {}: {error}", self.path.display()))
    }

    /// Reads new entries, and returns whether there may be more.
    fn read(&mut self) -> io::Result<(Vec<Entry>, bool)> {
        let inode = match std::fs::metadata(&self.path) {
            Ok(metadata) => Some(metadata.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        if let Some(reading) = &mut self.file {
            let may_be_known = reading.earlier > 0;
            let most = if may_be_known {
                reading.earlier.min(CHUNK)
            } else {
                CHUNK
            };
            let read = (&mut reading.file).take(most).read_to_end(&mut bytes)?;
            reading.earlier = reading.earlier.saturating_sub(read as u64);
            reading.rest.extend_from_slice(&bytes);
            let entries = take(&mut reading.rest, &mut self.last, may_be_known);
            if read > 0 || inode == Some(reading.inode) || inode.is_none() {
                return Ok((entries, read > 0));
            }
        }
        // Open the first file, or its replacement, from the beginning.
        self.file = match File::open(&self.path) {
            Ok(file) => {
                let metadata = file.metadata()?;
                Some(Reading {
                    inode: metadata.ino(),
                    earlier: metadata.len(),
                    file,
                    rest: Vec::new(),
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok((Vec::new(), self.file.is_some()))
    }
}

/// Takes the complete lines that are new. `may_be_known` means that they may have been read from the replaced file.
fn take(rest: &mut Vec<u8>, last: &mut Last, may_be_known: bool) -> Vec<Entry> {
    let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
        return Vec::new();
    };
    let after = rest.split_off(end + 1);
    let text = String::from_utf8_lossy(rest).into_owned();
    *rest = after;
    // A replaced file is sorted by pod.
    let parsed = text.lines().filter_map(|line| {
        let entry: Entry = serde_json::from_str(line).ok()?;
        Some((entry, line))
    });
    let mut new: Vec<(Entry, &str)> = parsed
        .filter(|(entry, line)| !may_be_known || last.is_new(entry, line))
        .collect();
    new.sort_by_key(|(entry, _line)| entry.at_ms);
    for (entry, line) in &new {
        last.record(entry, line);
    }
    new.into_iter().map(|(entry, _line)| entry).collect()
}

impl Last {
    fn is_new(&self, entry: &Entry, line: &str) -> bool {
        entry.at_ms > self.at_ms
            || entry.at_ms == self.at_ms && !self.lines.iter().any(|known| known == line)
    }

    fn record(&mut self, entry: &Entry, line: &str) {
        if entry.at_ms > self.at_ms {
            self.at_ms = entry.at_ms;
            self.lines.clear();
        }
        if entry.at_ms == self.at_ms {
            self.lines.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    fn line(at_ms: u64, pod: &str) -> String {
        format!(
            "{{\"at_ms\":{at_ms},\"uid\":\"u\",\"pod\":\"{pod}\",\"decision\":\"waiting\",\"reason\":\"r\"}}\n"
        )
    }

    #[tokio::test(flavor = "current_thread")]
    async fn appended_and_rewritten_entries_are_returned_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(run_dir::TIMELINE);
        fs::write(&path, line(1, "a/old")).unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let new = line(2, "a/new");
        file.write_all(&new.as_bytes()[..7]).unwrap();
        file.write_all(&new.as_bytes()[7..]).unwrap();
        let entries = journal.next().await.unwrap();
        assert_eq!(entries[0].pod, "a/new");
        // The file is replaced by one with known and new lines, sorted by pod.
        let text = [line(4, "a/b"), line(1, "a/old"), new, line(2, "a/same")].concat();
        let other = dir.path().join("other");
        fs::write(&other, text).unwrap();
        fs::rename(&other, &path).unwrap();
        let entries = journal.next().await.unwrap();
        let pods: Vec<&str> = entries.iter().map(|entry| entry.pod.as_str()).collect();
        assert_eq!(pods, ["a/same", "a/b"]);
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(line(5, "a/c").as_bytes()).unwrap();
        assert_eq!(journal.next().await.unwrap()[0].pod, "a/c");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn entries_after_a_step_back_of_the_clock_are_returned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(run_dir::TIMELINE);
        fs::write(&path, line(9, "a/old")).unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(line(2, "a/new").as_bytes()).unwrap();
        let (entries, _more) = journal.read().unwrap();
        let pods: Vec<&str> = entries.iter().map(|entry| entry.pod.as_str()).collect();
        assert_eq!(pods, ["a/new"]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn file_created_later_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        let path = dir.path().join(run_dir::TIMELINE);
        fs::write(&path, line(1, "a/first")).unwrap();
        assert_eq!(journal.next().await.unwrap()[0].pod, "a/first");
        assert!(Journal::open(&dir.path().join("absent")).is_err());
    }
}
