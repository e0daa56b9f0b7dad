//! Runs of libFuzzer, one for each target.

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
use crate::workspace::{root, shown};

/// The corpus from which every run starts.
const CORPUS: &str = "tests/fuzz/corpus";
/// The variable with the target, for the program.
const TARGET_VARIABLE: &str = "USHER_FUZZ_TARGET";
/// Time limit for one input; a longer run counts as a hang.
const HANG_SECONDS: u64 = 5;
/// Memory limit: a decoder that needs more allocates as much as an input requests.
const MEMORY_MIB: u64 = 512;
/// Limit of an input: longer ones are repetitive and slow.
const MAX_INPUT: u64 = 16 * 1024;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) program: PathBuf,
    /// `target/fuzz`.
    pub(super) folder: PathBuf,
    /// None for a random seed.
    pub(super) seed: Option<u32>,
}

/// All targets, by the folders of the corpus. A test checks that each target has one.
pub(super) fn targets() -> Result<Vec<String>> {
    let mut names = fs::read_dir(root().join(CORPUS))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("list {CORPUS}"))?
        .iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    names.sort();
    Ok(names)
}

/// Time of one target in whole seconds, at least one: libFuzzer interprets 0 as no limit.
pub(super) fn share(length: Duration, targets: usize, jobs: usize) -> Duration {
    let rounds = targets.div_ceil(jobs.max(1)).max(1);
    Duration::from_secs((length.as_secs() / rounds as u64).max(1))
}

impl Session {
    /// Runs targets, `jobs` at once.
    pub(super) fn run(
        &self,
        targets: &[String],
        share: Duration,
        jobs: usize,
    ) -> Result<Vec<Outcome>> {
        let waiting = Mutex::new(targets.iter());
        let next = || waiting.lock().ok()?.next();
        let work = || {
            std::iter::from_fn(next)
                .map(|target| self.run_target(target, share))
                .collect::<Result<Vec<_>>>()
        };
        let mut outcomes = thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_fold(Vec::new(), |mut all, worker| {
                let done = worker.join();
                all.extend(done.map_err(|_panic| anyhow!("a target's thread panicked"))??);
                anyhow::Ok(all)
            })
        })?;
        outcomes.sort_by(|one, other| one.target.cmp(&other.target));
        Ok(outcomes)
    }

    fn run_target(&self, target: &str, share: Duration) -> Result<Outcome> {
        let found = self.folder.join("corpus").join(target);
        let crashes = self.folder.join("crashes");
        let log = self.log(target);
        for folder in [&found, &crashes, &self.folder.join("log")] {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let started = Instant::now();
        let status = Command::new(&self.program)
            .env(TARGET_VARIABLE, target)
            .arg(&found)
            .arg(root().join(CORPUS).join(target))
            .arg(format!("-max_total_time={}", share.as_secs()))
            .args(self.seed.map(|seed| format!("-seed={seed}")))
            .arg(format!("-timeout={HANG_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .arg(format!("-max_len={MAX_INPUT}"))
            .arg(format!("-artifact_prefix={}/{target}-", crashes.display()))
            .arg("-print_final_stats=1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .status()
            .with_context(|| format!("run {}", self.program.display()))?;
        let text = fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        let text = String::from_utf8_lossy(&text);
        let outcome = Outcome::new(target, &text, status, started.elapsed());
        say(&format!("{target}: {} executions", outcome.executions));
        Ok(outcome)
    }

    fn log(&self, target: &str) -> PathBuf {
        self.folder.join("log").join(target).with_extension("log")
    }

    /// The output of a failure, with the commands that reproduce it and keep its input.
    pub(super) fn failure(&self, outcome: &Outcome) -> String {
        let Some(failure) = &outcome.failure else {
            return String::new();
        };
        let target = &outcome.target;
        let mut text = format!(
            "\n{target} FAILED:\n    {}\n",
            failure.output.join("\n    ")
        );
        text += &format!("  log:    {}\n", shown(&self.log(target)));
        if let Some(file) = &failure.file {
            let (file, program) = (shown(Path::new(file)), shown(&self.program));
            text += &format!(
                "  input:  {file}\n  replay: {TARGET_VARIABLE}={target} {program} {file}\n  \
                 keep:   cp {file} tests/fuzz/corpus/{target}/NAME && cargo test -p usher-tests --test corpus"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{super::outcome::Failure, *};

    #[test]
    fn time_is_shared() {
        let seconds =
            |length, targets, jobs| share(Duration::from_secs(length), targets, jobs).as_secs();
        assert_eq!(seconds(600, 30, 1), 20);
        assert_eq!(seconds(600, 30, 2), 40);
        assert_eq!(seconds(600, 3, 8), 600);
        assert_eq!(seconds(5, 30, 1), 1, "never without a limit");
        assert_eq!(seconds(5, 0, 0), 5);
    }

    #[test]
    fn targets_are_the_folders_of_the_corpus() {
        let targets = targets().unwrap();
        assert!(targets.contains(&"conflist".to_owned()), "{targets:?}");
        assert!(targets.is_sorted());
    }

    #[test]
    fn failure_can_be_replayed() {
        let session = Session {
            program: root().join("target/fuzz/p"),
            folder: root().join("target/fuzz"),
            seed: None,
        };
        let file = root().join("target/fuzz/crashes/word-crash-00");
        let text = session.failure(&Outcome {
            target: "word".to_owned(),
            executions: 1,
            edges: 1,
            corpus: 1,
            seconds: 1,
            failure: Some(Failure {
                file: Some(file.display().to_string()),
                output: vec!["panicked at a.rs:1".to_owned()],
            }),
        });
        let replay = "USHER_FUZZ_TARGET=word target/fuzz/p target/fuzz/crashes/word-crash-00";
        for part in ["panicked at a.rs:1", replay, "target/fuzz/log/word.log"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
