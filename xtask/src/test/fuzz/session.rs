//! Runs of libFuzzer, one for each target.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use usher_cluster::progress::say;

use super::outcome::Outcome;
use crate::{
    file, parallel,
    workspace::{root, shown},
};

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
    let folders = file::list(CORPUS)?;
    let names = folders.iter().filter_map(|folder| folder.file_name());
    Ok(names.map(|name| name.display().to_string()).collect())
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
        let outcomes = parallel::map(targets, jobs, |target| self.run_target(target, share));
        let mut outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
        outcomes.sort_by(|one, other| one.target.cmp(&other.target));
        Ok(outcomes)
    }

    fn run_target(&self, target: &str, share: Duration) -> Result<Outcome> {
        let found = self.folder.join("corpus").join(target);
        let crashes = self.folder.join("crashes");
        let log = self.log(target);
        for folder in [&found, &crashes, &self.folder.join("log")] {
            file::create_folder(folder)?;
        }
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
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
            .stderr(output)
            .status()
            .with_context(|| format!("run {}", self.program.display()))?;
        let text = file::read_bytes(&log)?;
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
