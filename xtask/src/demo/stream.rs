//! What a program that runs on says, line by line, each with the moment at which it came.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) at: Timestamp,
    pub(super) text: String,
}

#[derive(Debug, Default)]
struct Said {
    lines: Vec<Line>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    said: Mutex<Said>,
    news: Condvar,
}

/// A running program. Killed on drop.
#[derive(Debug)]
pub(super) struct Stream {
    what: &'static str,
    child: Child,
    shared: Arc<Shared>,
}

impl Stream {
    pub(super) fn follow(what: &'static str, command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{what}: start {}", command.get_program().display()))?;
        let stdout = child.stdout.take().context("stdout is a pipe")?;
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                let at = Timestamp::now();
                ours.lock().lines.push(Line { at, text });
                ours.news.notify_all();
            }
            ours.lock().is_over = true;
            ours.news.notify_all();
        });
        Ok(Self {
            what,
            child,
            shared,
        })
    }

    /// The first thing that `find` makes of a line, past or to come; none when nothing came within the limit.
    pub(super) fn find<T>(
        &self,
        limit: Duration,
        find: impl Fn(&Line) -> Option<T>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + limit;
        let mut seen = 0;
        let mut said = self.shared.lock();
        loop {
            if let Some(found) = said.lines[seen..].iter().find_map(&find) {
                return Ok(Some(found));
            }
            seen = said.lines.len();
            if said.is_over {
                bail!("{} ended", self.what);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let woken = self.shared.news.wait_timeout(said, left);
            (said, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Stream {
        Stream::follow("a shell", Command::new("/bin/sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn line_is_found_before_and_after_it_came() {
        let stream = shell("echo one; echo two; exec sleep 60");
        let two = |line: &Line| (line.text == "two").then_some(line.at);
        let first = stream.find(LONG, two).unwrap();
        assert!(first.is_some());
        assert_eq!(stream.find(Duration::ZERO, two).unwrap(), first);
    }

    #[test]
    fn nothing_within_the_limit_is_no_error_and_the_end_is() {
        let never = |_: &Line| None::<()>;
        let waiting = shell("exec sleep 60");
        assert_eq!(waiting.find(Duration::from_millis(1), never).unwrap(), None);
        let over = shell("echo one");
        let error = over.find(LONG, never).unwrap_err();
        assert_eq!(error.to_string(), "a shell ended");
    }
}
