//! Runs of libFuzzer, one for each target.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use usher_cluster::progress::say;

use crate::{
    file,
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
/// Number of lines to print for a failure.
const SHOWN: usize = 12;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) program: PathBuf,
    /// `target/fuzz`.
    pub(super) folder: PathBuf,
    /// None for a random seed.
    pub(super) seed: Option<u32>,
    /// The time of each target.
    pub(super) share: Duration,
}

/// All targets, by the folders of the corpus. A test checks that each target has one.
pub(super) fn targets() -> Result<Vec<String>> {
    let folders = file::list(CORPUS)?;
    let names = folders.iter().filter_map(|folder| folder.file_name());
    Ok(names.map(|name| name.display().to_string()).collect())
}

/// Time of one target in whole seconds, at least one: libFuzzer interprets 0 as no limit.
pub(super) fn share(length: Duration, targets: usize) -> Duration {
    Duration::from_secs((length.as_secs() / targets.max(1) as u64).max(1))
}

impl Session {
    /// Runs a target. Returns whether all inputs passed.
    pub(super) fn run(&self, target: &str) -> Result<bool> {
        let found = self.folder.join("corpus").join(target);
        let crashes = self.folder.join("crashes");
        let log = self.log(target);
        for folder in [&found, &crashes, &self.folder.join("log")] {
            file::create_folder(folder)?;
        }
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let status = Command::new(&self.program)
            .env(TARGET_VARIABLE, target)
            .arg(&found)
            .arg(root().join(CORPUS).join(target))
            .arg(format!("-max_total_time={}", self.share.as_secs()))
            .args(self.seed.map(|seed| format!("-seed={seed}")))
            .arg(format!("-timeout={HANG_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .arg(format!("-max_len={MAX_INPUT}"))
            .arg(format!("-artifact_prefix={}/{target}-", crashes.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .status()
            .with_context(|| format!("run {}", self.program.display()))?;
        let text = file::read_bytes(&log)?;
        let text = String::from_utf8_lossy(&text);
        if status.success() {
            // libFuzzer's last figures: executions, edges of the code, inputs that it keeps.
            let figures = text.lines().rfind(|line| line.contains("DONE"));
            say(&format!("{target}: {}", figures.unwrap_or("no figures")));
        } else {
            say(&self.failure(target, &text, status));
        }
        Ok(status.success())
    }

    fn log(&self, target: &str) -> PathBuf {
        self.folder.join("log").join(target).with_extension("log")
    }

    /// The output of a failure, with the commands that reproduce it and keep its input.
    fn failure(&self, target: &str, output: &str, status: ExitStatus) -> String {
        let starts = ["panicked at", "ERROR: libFuzzer", "error:"];
        let is_start = |line: &&str| starts.iter().any(|start| line.contains(start));
        let lines = output.lines().skip_while(|line| !is_start(line));
        let mut text = format!("\n{target} FAILED: {status}\n");
        text.extend(lines.take(SHOWN).map(|line| format!("    {line}\n")));
        text += &format!("  log:    {}\n", shown(&self.log(target)));
        let mut lines = output.lines();
        if let Some((_, file)) = lines.find_map(|line| line.split_once("Test unit written to ")) {
            let (file, program) = (shown(Path::new(file.trim())), shown(&self.program));
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
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// The text about a failure of the target `word`.
    fn failure(output: &str, status: i32) -> String {
        let session = Session {
            program: root().join("target/fuzz/p"),
            folder: root().join("target/fuzz"),
            seed: None,
            share: Duration::from_secs(1),
        };
        session.failure("word", output, ExitStatus::from_raw(status))
    }

    #[test]
    fn time_is_shared() {
        let seconds = |length, targets| share(Duration::from_secs(length), targets).as_secs();
        assert_eq!(seconds(600, 30), 20);
        assert_eq!(seconds(5, 30), 1, "never without a limit");
        assert_eq!(seconds(5, 0), 5);
    }

    #[test]
    fn targets_are_the_folders_of_the_corpus() {
        let targets = targets().unwrap();
        assert!(targets.contains(&"conflist".to_owned()), "{targets:?}");
        assert!(targets.is_sorted());
    }

    #[test]
    fn failure_can_be_replayed() {
        let file = root().join("target/fuzz/crashes/word-crash-00");
        let output = format!(
            "#7\tNEW    cov: 3 ft: 4 corp: 2/1b\nthread '<unnamed>' panicked at agent/core/src/a.rs:1:2:\nno\n\
             ==1== ERROR: libFuzzer: deadly signal\nartifact_prefix='x'; Test unit written to {}\n",
            file.display()
        );
        let text = failure(&output, 77 << 8);
        let replay = "USHER_FUZZ_TARGET=word target/fuzz/p target/fuzz/crashes/word-crash-00\n";
        for part in ["a.rs:1:2:\n    no\n", replay, "target/fuzz/log/word.log"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("NEW"), "{text}");
    }

    #[test]
    fn program_that_just_ends_has_failed() {
        let text = failure("", 9);
        assert!(text.contains("word FAILED: signal: 9"), "{text}");
        assert!(!text.contains("replay"), "{text}");
    }
}
