//! The parent of a pod's containers.
//!
//! Like a runtime's shim it is a subreaper
//! ([PR_SET_CHILD_SUBREAPER](https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html)),
//! learns of exits by SIGCHLD and reaps before other work. It is
//! in the pod's network namespace, which therefore lives exactly as long as
//! the pod. When its standard input closes, because the pod was dropped or
//! the test was killed, it ends the pod and exits.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use usher_tests::synthetic::layout;
use usher_tests::synthetic::wire::{Command, Event, Order, Program, Sandbox, What};

use crate::pod::announce::Outside;
use crate::pod::lives::{Life, Lives};
use crate::pod::network::Network;
use crate::{container::bundle, pod::route};

/// Runs one pod until its standard input closes.
pub(crate) fn run(sandbox: &Sandbox) -> Result<(), String> {
    let mut lives = Lives::default();
    let outcome =
        prepare(sandbox).and_then(|(signals, ground)| serve(sandbox, &mut lives, &signals, ground));
    if let Err(reason) = &outcome {
        report(sandbox, "", What::Failed(reason.clone()));
    }
    end(sandbox);
    lives.clear();
    outcome
}

/// The shared resources of a pod's containers.
struct Ground {
    outside: Outside,
    network: Network,
}

fn prepare(sandbox: &Sandbox) -> Result<(SignalFd, Ground), String> {
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
    if !sandbox.bundles {
        bundle::isolate()?;
    }
    std::thread::sleep(sandbox.network_delay);
    let outside = Outside::open()?;
    let network = Network::open(sandbox)?;
    Ok((signals, Ground { outside, network }))
}

fn serve(
    sandbox: &Sandbox,
    lives: &mut Lives,
    signals: &SignalFd,
    mut ground: Ground,
) -> Result<(), String> {
    let (mut input, stdin) = (Input::default(), std::io::stdin());
    loop {
        let mut fds = vec![
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(lives.descriptors());
        match poll(&mut fds, timeout(lives)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(format!("poll: {error}")),
        }
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        let commanded = fds.get(1).is_some_and(ready);
        drop(fds);
        // First of all, as a shim must: reap.
        while matches!(signals.read_signal(), Ok(Some(_))) {}
        reap(lives);
        lives.listen();
        lives.sweep(Instant::now());
        for (id, what) in lives.news() {
            report(sandbox, &id, what);
        }
        if commanded {
            let Some(commands) = input.read()? else {
                return Ok(());
            };
            for command in commands {
                obey(command, lives, sandbox, &mut ground)?;
            }
        }
    }
}

/// The standard input, which is polled: complete commands must not
/// wait for more input.
#[derive(Default)]
struct Input {
    begun: Vec<u8>,
}

impl Input {
    /// Reads the available commands; None at the end of input.
    fn read(&mut self) -> Result<Option<Vec<Command>>, String> {
        let mut block = [0; 8192];
        let length = nix::unistd::read(std::io::stdin(), &mut block)
            .map_err(|error| format!("read: {error}"))?;
        if length == 0 {
            return Ok(None);
        }
        self.begun.extend(block.iter().take(length));
        let end = self.begun.iter().rposition(|byte| *byte == b'\n');
        let whole: Vec<u8> = self.begun.drain(..end.map_or(0, |end| end + 1)).collect();
        let lines = whole.split(|byte| *byte == b'\n');
        let commands = lines.filter(|line| !line.is_empty());
        commands
            .map(|line| serde_json::from_slice(line).map_err(|error| format!("command: {error}")))
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

fn obey(
    command: Command,
    lives: &mut Lives,
    sandbox: &Sandbox,
    ground: &mut Ground,
) -> Result<(), String> {
    match command {
        Command::Create(mut order) => {
            let id = order.id.clone();
            order.users = ground.network.users();
            if matches!(order.program, Program::Pause) {
                announce(sandbox, &order, &ground.outside);
            }
            match begin(*order) {
                Ok(life) => lives.add(life),
                Err(reason) => report(sandbox, &id, What::Failed(reason)),
            }
        }
        Command::Exec {
            container,
            mut order,
        } => {
            order.users = ground.network.users();
            let id = order.id.clone();
            if let Err(reason) = lives.enter(&container, *order) {
                report(sandbox, &id, What::Failed(reason));
            }
        }
        Command::SendLine { id, line } => lives.send_line(&id, &line),
        Command::Signal { id, number } => lives.signal(&id, number),
        Command::RenewNetwork => ground.network = Network::open(sandbox)?,
        Command::Filter(script) => {
            if let Err(reason) = route::filter(&script) {
                report(sandbox, "", What::Failed(reason));
            }
        }
    }
    Ok(())
}

/// Announces the pod, between its network namespace and its first process.
fn announce(sandbox: &Sandbox, order: &Order, outside: &Outside) {
    if let Some(announcement) = &sandbox.announcement {
        let what = match outside.announce(announcement, &sandbox.uid, &order.id) {
            Ok(added) => What::Added(added),
            Err(reason) => What::Failed(reason),
        };
        report(sandbox, &order.id, what);
    }
}

fn begin(order: Order) -> Result<Life, String> {
    // With a task, the container's first process does both.
    if order.task.is_none() {
        bundle::open(&order.bundle, &order.root)?;
        bundle::make_cgroups(&order)?;
    }
    Life::begin(order)
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
    // One write, to keep lines whole; if it fails, no process listens.
    nix::unistd::write(std::io::stdout(), line.as_bytes()).ok();
}

/// Kills every process of the pod and removes its directories.
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
    layout::remove_tree(&sandbox.cgroup);
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
