//! The parent of a pod's containers.
//!
//! Like a runtime's shim it is a subreaper
//! ([PR_SET_CHILD_SUBREAPER](https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html)),
//! learns of exits by SIGCHLD and reaps before it does anything else. It is
//! in the pod's network namespace, which therefore lives exactly as long as
//! the pod. When its standard input closes, because the pod was dropped or
//! because the test was killed, it ends the pod and itself.

use std::io::BufRead;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use usher_tests::synthetic::wire::{Command, Event, Sandbox, What};

use crate::lives::{Life, Lives};
use crate::{bundle, loopback};

/// Runs one pod until its standard input closes.
pub(crate) fn run(sandbox: &Sandbox) -> Result<(), String> {
    let outcome = prepare(sandbox).and_then(|signals| serve(sandbox, &signals));
    if let Err(reason) = &outcome {
        report(sandbox, "", What::Failed(reason.clone()));
    }
    end(sandbox);
    outcome
}

fn prepare(sandbox: &Sandbox) -> Result<SignalFd, String> {
    nix::sys::prctl::set_child_subreaper(true).map_err(|error| format!("subreaper: {error}"))?;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals
        .thread_block()
        .map_err(|error| format!("sigmask: {error}"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals =
        SignalFd::with_flags(&signals, flags).map_err(|error| format!("signalfd: {error}"))?;
    make_directory(&sandbox.cgroup)?;
    bundle::isolate()?;
    std::thread::sleep(sandbox.network_delay);
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("unshare(CLONE_NEWNET): {error}"))?;
    loopback::up()?;
    Ok(signals)
}

fn serve(sandbox: &Sandbox, signals: &SignalFd) -> Result<(), String> {
    let mut lives = Lives::default();
    let mut input = std::io::stdin().lock();
    loop {
        let mut fds = vec![
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(input.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(lives.descriptors());
        match poll(&mut fds, timeout(&lives)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(format!("poll: {error}")),
        }
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        let commanded = fds.get(1).is_some_and(ready);
        drop(fds);
        // First of all, as a shim must: reap.
        while matches!(signals.read_signal(), Ok(Some(_))) {}
        reap(&mut lives);
        lives.listen();
        lives.sweep(Instant::now());
        for (id, what) in lives.news() {
            report(sandbox, &id, what);
        }
        if commanded && !obey(&mut input, &mut lives, sandbox)? {
            return Ok(());
        }
    }
}

/// Reads what is there; false at the end of input.
fn obey(input: &mut impl BufRead, lives: &mut Lives, sandbox: &Sandbox) -> Result<bool, String> {
    let block = input.fill_buf().map_err(|error| format!("read: {error}"))?;
    if block.is_empty() {
        return Ok(false);
    }
    // Whole lines only; a line of which a part is there is read to its end.
    let mut length = block.len();
    let whole = block
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map(|end| end + 1);
    let mut text = block.to_vec();
    if let Some(end) = whole {
        length = end;
        text.truncate(end);
    }
    input.consume(length);
    if whole.is_none() {
        input
            .read_until(b'\n', &mut text)
            .map_err(|error| format!("read: {error}"))?;
    }
    for line in text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let command = serde_json::from_slice(line).map_err(|error| format!("command: {error}"))?;
        obey_one(command, lives, sandbox);
    }
    Ok(true)
}

fn obey_one(command: Command, lives: &mut Lives, sandbox: &Sandbox) {
    match command {
        Command::Create(order) => {
            let id = order.id.clone();
            let life = bundle::open(&order.bundle, &order.root)
                .and_then(|()| make_directory(&order.cgroup))
                .and_then(|()| Life::begin(*order));
            match life {
                Ok(life) => lives.add(life),
                Err(reason) => report(sandbox, &id, What::Failed(reason)),
            }
        }
        Command::Tell { id, line } => lives.tell(&id, &line),
        Command::Signal { id, number } => lives.signal(&id, number),
    }
}

fn reap(lives: &mut Lives) {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        match status {
            WaitStatus::Exited(pid, code) => lives.reaped(pid.as_raw(), code << 8),
            WaitStatus::Signaled(pid, signal, _) => lives.reaped(pid.as_raw(), signal as i32),
            _ => return,
        }
    }
}

fn timeout(lives: &Lives) -> PollTimeout {
    let Some(due) = lives.next_sweep() else {
        return PollTimeout::NONE;
    };
    let left = due.saturating_duration_since(Instant::now());
    let rounded_up = left.as_millis().saturating_add(1);
    PollTimeout::try_from(rounded_up).unwrap_or(PollTimeout::MAX)
}

fn report(sandbox: &Sandbox, id: &str, what: What) {
    let event = Event {
        uid: sandbox.uid.clone(),
        id: id.to_owned(),
        what,
    };
    let mut line = serde_json::to_string(&event).expect("plain data");
    line.push('\n');
    // One write, to keep lines whole; nobody listens when it fails.
    nix::unistd::write(std::io::stdout(), line.as_bytes()).ok();
}

/// Ends every process of the pod and removes its directories.
fn end(sandbox: &Sandbox) {
    let kill_all = sandbox.cgroup.join("cgroup.kill");
    loop {
        drop(std::fs::write(&kill_all, "1"));
        // Processes that have not joined their cgroup yet are children.
        kill_children();
        match waitid(Id::All, WaitPidFlag::WEXITED) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    let containers = std::fs::read_dir(&sandbox.cgroup).into_iter().flatten();
    for container in containers.flatten() {
        drop(std::fs::remove_dir(container.path()));
    }
    drop(std::fs::remove_dir(&sandbox.cgroup));
}

fn kill_children() {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    for pid in children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
    {
        kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
    }
}

fn make_directory(path: &Path) -> Result<(), String> {
    std::fs::create_dir(path).map_err(|error| format!("mkdir {}: {error}", path.display()))
}
