//! The targets one after the other, or some at once.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use usher_cluster::progress::say;

use super::outcome::Outcome;
use crate::workspace::root;

/// What of the repository every run begins with.
const CORPUS: &str = "tests/fuzz/corpus";
/// Names the target to the program.
pub(super) const VARIABLE: &str = "USHER_FUZZ_TARGET";
/// One input that takes longer hangs, seconds.
const HANGS: u64 = 5;
/// A target that has more memory than this lets input decide how much it takes, MiB.
const MEMORY: u64 = 512;
/// Longest input, bytes: what is longer repeats itself, and is slow.
const LONGEST: u64 = 16 * 1024;

/// Where all is.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) program: PathBuf,
    /// `target/fuzz`.
    pub(super) place: PathBuf,
    /// What decides where to go; another one each time without it.
    pub(super) seed: Option<u32>,
}

/// The names of all targets: a folder of the corpus each, as a test makes sure.
pub(super) fn targets() -> Result<Vec<String>> {
    let folder = root().join(CORPUS);
    let entries = fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// How long each of them runs, whole seconds, one at least: 0 means for ever to libFuzzer.
pub(super) fn share(lasts: Duration, targets: usize, jobs: usize) -> Duration {
    let rounds = targets.div_ceil(jobs.max(1)).max(1);
    let seconds = lasts.as_secs() / rounds as u64;
    Duration::from_secs(seconds.max(1))
}

impl Session {
    /// Runs targets, `jobs` at once, and gives what became of them in their order.
    pub(super) fn all(
        &self,
        targets: &[String],
        share: Duration,
        jobs: usize,
    ) -> Result<Vec<Outcome>> {
        let waiting = Mutex::new(targets.iter());
        let next = || waiting.lock().ok()?.next();
        let work = || -> Result<Vec<Outcome>> {
            let mut done = Vec::new();
            while let Some(target) = next() {
                done.push(self.one(target, share)?);
            }
            Ok(done)
        };
        let mut outcomes = Vec::new();
        thread::scope(|scope| -> Result<()> {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                let done = worker.join();
                outcomes.extend(done.map_err(|_panic| anyhow!("a target's thread panicked"))??);
            }
            Ok(())
        })?;
        outcomes.sort_by(|one, other| one.target.cmp(&other.target));
        Ok(outcomes)
    }

    fn one(&self, target: &str, share: Duration) -> Result<Outcome> {
        let (found, crashes, log) = (
            self.place.join("corpus").join(target),
            self.crashes(),
            self.log(target),
        );
        for folder in [&found, &crashes, &self.place.join("log")] {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut fuzz = self.replay(target);
        fuzz.arg(&found)
            .arg(root().join(CORPUS).join(target))
            .arg(format!("-max_total_time={}", share.as_secs()))
            .args(self.seed.map(|seed| format!("-seed={seed}")))
            .arg(format!("-timeout={HANGS}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-max_len={LONGEST}"))
            .arg(format!("-artifact_prefix={}/{target}-", crashes.display()))
            .arg("-print_final_stats=1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        let started = Instant::now();
        let status = fuzz
            .status()
            .with_context(|| format!("run {}", self.program.display()))?;
        let text = fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        let text = String::from_utf8_lossy(&text);
        let outcome = Outcome::of(target, &text, status, started.elapsed());
        say(&format!("{target}: {}", outcome.short()));
        Ok(outcome)
    }

    /// The program with its target, which decodes the files that it is given, or fuzzes.
    pub(super) fn replay(&self, target: &str) -> Command {
        let mut program = Command::new(&self.program);
        program.env(VARIABLE, target);
        program
    }

    /// What a target said.
    pub(super) fn log(&self, target: &str) -> PathBuf {
        self.place.join("log").join(target).with_extension("log")
    }

    fn crashes(&self) -> PathBuf {
        Path::new(&self.place).join("crashes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shared() {
        let seconds =
            |lasts, targets, jobs| share(Duration::from_secs(lasts), targets, jobs).as_secs();
        assert_eq!(seconds(600, 30, 1), 20);
        assert_eq!(seconds(600, 30, 2), 40);
        assert_eq!(seconds(600, 3, 8), 600);
        assert_eq!(seconds(5, 30, 1), 1, "never for ever");
        assert_eq!(seconds(5, 0, 0), 5);
    }

    #[test]
    fn targets_are_the_folders_of_the_corpus() {
        let targets = targets().unwrap();
        assert!(targets.contains(&"conflist".to_owned()), "{targets:?}");
        assert!(targets.is_sorted());
    }
}
