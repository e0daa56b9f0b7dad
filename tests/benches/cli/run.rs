//! Repeated runs of one program.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use usher_tests::record::Sample;

/// The measurements of many runs.
#[derive(Default)]
pub(crate) struct Runs {
    pub(crate) first: Sample,
    /// To the exit.
    pub(crate) whole: Sample,
    /// CPU time, which other processes do not affect.
    pub(crate) cpu: Sample,
    /// Lines of the last run.
    pub(crate) lines: usize,
}

/// Runs the command `runs` times.
///
/// # Panics
///
/// If a run fails.
pub(crate) fn repeat(runs: usize, command: impl Fn() -> Command) -> Runs {
    let mut sum = Runs::default();
    for _ in 0..runs {
        let mut command = command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let before = cpu();
        let began = Instant::now();
        let mut child = command.spawn().expect("the program starts");
        let mut output = child.stdout.take().expect("piped above");
        let mut text = vec![0];
        output
            .read_exact(&mut text)
            .expect("the program prints something");
        sum.first.add(began.elapsed());
        output.read_to_end(&mut text).expect("a pipe can be read");
        let ended = child.wait_with_output().expect("it ends");
        sum.whole.add(began.elapsed());
        sum.cpu.add(cpu() - before);
        assert!(ended.status.success(), "{command:?}: {ended:?}");
        sum.lines = text.iter().filter(|byte| **byte == b'\n').count();
    }
    sum
}

/// CPU time of all exited children.
fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel counts");
    let micros = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or_default();
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}

/// The peak memory of all children so far, in MiB.
pub(crate) fn most_mib() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel counts");
    let kib = u32::try_from(usage.max_rss()).unwrap_or(u32::MAX);
    f64::from(kib) / 1024.0
}
