//! Runs work with clusters, and always removes the clusters at the end.
//!
//! A second process of this program does the work, in a session of its own. This process waits for it, terminates the
//! whole session on SIGINT, SIGTERM and SIGHUP, and then removes the clusters: after success, failure, a panic, Ctrl-C
//! or a kill. A thread receives the signals, so a second Ctrl-C does not stop the cleanup.

use std::{
    collections::HashSet,
    env, fs,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitCode, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::{Context, Result};
use nix::{
    sys::{
        signal::{SigSet, Signal, kill, killpg},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{Pid, getpgid, getsid, setsid},
};
use usher_cluster::{Cluster, progress::say};

/// The variable that marks the worker process.
const WORKER: &str = "USHER_XTASK_WORKER";
/// A shell adds this to the number of a signal to form an exit code.
const BY_SIGNAL: i32 = 128;
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// The worker process. SIGTERM ends its session, because the parent of this program may have set the other signals to
/// be ignored.
#[derive(Debug, Default)]
struct Worker {
    /// None after the worker ended.
    session: Option<Pid>,
    /// The signal that ended the session.
    signal: Option<Signal>,
}

/// Runs `work` in a separate process, and then removes the clusters of these names.
pub(crate) fn run(clusters: &[&str], work: impl FnOnce() -> Result<()>) -> Result<ExitCode> {
    let signals = SIGNALS.into_iter().collect::<SigSet>();
    if env::var_os(WORKER).is_some() {
        setsid().context("begin a session")?;
        signals.thread_unblock().context("unblock signals")?;
        return work().map(|()| ExitCode::SUCCESS);
    }
    // Runs before the first thread starts, so that all threads inherit the mask.
    signals.thread_block().context("block signals")?;
    let (status, signal) = supervise(signals)?;
    if let Some(signal) = signal {
        say(&format!("\n{signal}: ending"));
    }
    end(clusters)?;
    Ok(exit_code(status, signal))
}

/// Removes clusters, and continues after an error.
pub(crate) fn end(clusters: &[&str]) -> Result<()> {
    let mut result = Ok(());
    for name in clusters {
        say(&format!("Removing cluster {name}"));
        let ended = Cluster::new(name).and_then(|cluster| cluster.down());
        result = result.and(ended.with_context(|| format!("remove cluster {name}")));
    }
    result
}

fn supervise(signals: SigSet) -> Result<(ExitStatus, Option<Signal>)> {
    let program = env::current_exe().context("find this program")?;
    let mut child = Command::new(&program)
        .args(env::args_os().skip(1))
        .env(WORKER, "1")
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("start {} again", program.display()))?;
    let session = Pid::from_raw(i32::try_from(child.id()).context("the worker's pid")?);
    let worker = Arc::new(Mutex::new(Worker {
        session: Some(session),
        signal: None,
    }));
    let shared = Arc::clone(&worker);
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            let mut worker = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // A worker without a session receives the signal when it unblocks signals.
            if let Some(session) = worker.session
                && kill(session, Signal::SIGTERM).is_ok()
            {
                for group in groups(session) {
                    killpg(group, Signal::SIGTERM).ok();
                }
                worker.signal = Some(signal);
            }
        }
    });
    // End the session before the worker is reaped, so that its number is not reused. Clusters have other sessions.
    waitid(
        Id::Pid(session),
        WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT,
    )
    .context("wait for the worker")?;
    let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
    worker.session = None;
    end_session(session);
    let status = child.wait().context("reap the worker")?;
    Ok((status, worker.signal))
}

/// Kills the process groups of a session, including new ones.
fn end_session(session: Pid) {
    let mut ended = HashSet::new();
    loop {
        let mut new = groups(session);
        new.retain(|group| ended.insert(*group));
        if new.is_empty() {
            return;
        }
        for group in new {
            // The group may have ended.
            killpg(group, Signal::SIGKILL).ok();
        }
    }
}

/// The process groups of a session.
fn groups(session: Pid) -> HashSet<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.map(Pid::from_raw)
        .filter(|pid| getsid(Some(*pid)) == Ok(session))
        .filter_map(|pid| getpgid(Some(pid)).ok())
        .collect()
}

fn exit_code(status: ExitStatus, signal: Option<Signal>) -> ExitCode {
    let by_signal = signal.map(|signal| signal as i32).or(status.signal());
    let code = by_signal.map(|signal| BY_SIGNAL + signal).or(status.code());
    let code = code.and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_is_that_of_the_worker_or_of_the_signal() {
        let exited = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!(exit_code(exited(0), None), ExitCode::SUCCESS);
        assert_eq!(exit_code(exited(3), None), ExitCode::from(3));
        assert_eq!(
            exit_code(exited(0), Some(Signal::SIGINT)),
            ExitCode::from(130)
        );
        assert_eq!(
            exit_code(ExitStatus::from_raw(9), None),
            ExitCode::from(137)
        );
    }
}
