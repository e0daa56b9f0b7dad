//! Processes that outlive the program that started them, and waits for conditions.
//!
//! A process is its pid together with its start time (field 22 of `/proc/PID/stat`), so that a
//! reused pid is detected.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    /// In clock ticks since the machine's start.
    start: u64,
}

impl Identity {
    /// The process that has the pid now, in the given `/proc`; None if it has exited.
    pub(crate) fn of(proc: &Path, pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
        start_time(&stat).map(|start| Self { pid, start })
    }

    pub(crate) fn lives(&self, proc: &Path) -> bool {
        Self::of(proc, self.pid) == Some(*self)
    }

    /// Reads a file of the form `PID START`.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let (pid, start) = text.trim().split_once(' ')?;
        Some(Self {
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    }

    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let fresh = file.with_extension("new");
        fs::write(&fresh, format!("{} {}\n", self.pid, self.start))
            .with_context(|| format!("write {}", fresh.display()))?;
        fs::rename(&fresh, file).with_context(|| format!("rename to {}", file.display()))
    }
}

/// The start time in the text of `/proc/PID/stat`; None for a zombie, which counts as exited.
fn start_time(stat: &str) -> Option<u64> {
    // The name in parentheses may contain anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    if fields.next() == Some("Z") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Polls until the answer is true; gives up at the deadline or at the first error.
pub(crate) fn wait_until(
    limit: Duration,
    what: &str,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !done()? {
        if Instant::now() >= deadline {
            bail!("timed out after {} s waiting for {what}", limit.as_secs());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_field_22_whatever_the_name() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(start_time(&format!("7 (a) b)) S {rest}")), Some(4711));
        assert_eq!(start_time(&format!("7 (gone) Z {rest}")), None);
        assert_eq!(start_time("7 (short) S 1"), None);
    }

    #[test]
    fn start_time_distinguishes_a_reused_pid() {
        let proc = Path::new("/proc");
        let me = Identity::of(proc, i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(me.lives(proc));
        assert!(
            !Identity {
                start: me.start - 1,
                ..me
            }
            .lives(proc)
        );
    }

    #[test]
    fn file_keeps_the_identity() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("init.pid");
        let identity = Identity { pid: 12, start: 34 };
        identity.write(&file).unwrap();
        assert_eq!(Identity::read(&file), Some(identity));
        fs::write(&file, "12").unwrap();
        assert_eq!(Identity::read(&file), None);
    }
}
