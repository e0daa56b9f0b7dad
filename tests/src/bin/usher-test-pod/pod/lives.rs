//! The containers of a pod, from the view of their shim.
//!
//! A container has up to three kinds of processes: the stage, a child of
//! the shim; its child, the init process, which the shim inherits; and
//! children of the init process. The shim learns the init process's pid from its
//! first line, and may reap it before it has read that line.

mod removal;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use usher_tests::synthetic::wire::{Order, Pids, What};

use crate::container::task;
use removal::Removals;

/// One container that was started and has not ended.
pub(crate) struct Life {
    order: Order,
    /// A program that was run in a container by exec.
    is_exec: bool,
    stage: i32,
    stage_status: Option<i32>,
    init: Option<i32>,
    input: ChildStdin,
    /// Read only at the end.
    output: File,
    /// Lines for the shim.
    words: File,
    wait_line: Vec<u8>,
    silent: bool,
}

impl Life {
    /// Starts the first process of a container.
    pub(crate) fn begin(order: Order) -> Result<Self, String> {
        Self::spawn(order, "stage")
    }

    fn spawn(order: Order, role: &'static str) -> Result<Self, String> {
        let json = serde_json::to_string(&order).map_err(|error| format!("order: {error}"))?;
        let mut child = Command::new("/proc/self/exe")
            .arg(role)
            .arg(json)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("spawn {role}: {error}"))?;
        let output = child.stdout.take().expect("piped above");
        let words = child.stderr.take().expect("piped above");
        Ok(Self {
            order,
            is_exec: role != "stage",
            stage: i32::try_from(child.id()).expect("pids are small"),
            stage_status: None,
            init: None,
            input: child.stdin.take().expect("piped above"),
            output: quiet(output.into())?,
            words: quiet(words.into())?,
            wait_line: Vec::new(),
            silent: false,
        })
    }
}

/// Makes the pipe non-blocking.
fn quiet(pipe: OwnedFd) -> Result<File, String> {
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(|error| format!("fcntl: {error}"))?;
    Ok(File::from(pipe))
}

/// All containers of the pod.
#[derive(Default)]
pub(crate) struct Lives {
    lives: Vec<Life>,
    /// Reaped processes that belong to no known container yet.
    strays: HashMap<i32, i32>,
    news: Vec<(String, What)>,
    /// Reaped containers with their wait status, until their removal is due.
    leaving: Vec<(Instant, Life, i32)>,
    removals: Removals,
}

impl Lives {
    pub(crate) fn add(&mut self, life: Life) {
        self.lives.push(life);
    }

    /// Runs a program in a container.
    pub(crate) fn enter(&mut self, container: &str, mut order: Order) -> Result<(), String> {
        let host = self.lives.iter().find(|life| life.order.id == container);
        let init = host.and_then(|life| life.init);
        order.pids = Pids::Of(init.ok_or("exec in a container that does not run")?);
        self.lives.push(Life::spawn(order, "enter")?);
        Ok(())
    }

    /// Removes the rest of all containers when their processes have exited.
    pub(crate) fn clear(self) {
        let lives = self.lives.into_iter();
        let leaving = self.leaving.into_iter().map(|(_, life, _)| life);
        let orders = lives.chain(leaving).map(|life| life.order);
        self.removals.clear(orders);
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        let speaking = self.lives.iter().filter(|life| !life.silent);
        speaking.map(|life| PollFd::new(life.words.as_fd(), PollFlags::POLLIN))
    }

    /// Records the exit of a child.
    pub(crate) fn reaped(&mut self, pid: i32, status: i32) {
        match self.lives.iter_mut().find(|life| life.stage == pid) {
            Some(life) => life.stage_status = Some(status),
            None => drop(self.strays.insert(pid, status)),
        }
    }

    /// Reads the lines of containers, and detects which of them have ended.
    pub(crate) fn listen(&mut self) {
        for life in &mut self.lives {
            hear(life, &mut self.news);
        }
        let (mut ended, mut living) = (Vec::new(), Vec::new());
        for life in self.lives.drain(..) {
            let status = match life.init {
                Some(init) => self.strays.remove(&init),
                // The container was killed before it could print its pid.
                None => life.stage_status.filter(|_| life.silent).map(killed_early),
            };
            match status {
                Some(status) => ended.push((life, status)),
                None => living.push(life),
            }
        }
        self.lives = living;
        let now = Instant::now();
        for (life, status) in ended {
            self.leaving
                .push((now + life.order.pace.removal, life, status));
        }
    }

    /// The events since the last call.
    pub(crate) fn news(&mut self) -> Vec<(String, What)> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn next_sweep(&self) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|(due, ..)| *due);
        leaving.chain(self.removals.next()).min()
    }

    /// Reports the containers that ended long enough ago, and removes them.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let (due, leaving) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|(due, ..)| *due <= now);
        self.leaving = leaving;
        for (due, mut life, status) in due {
            hear(&mut life, &mut self.news);
            let mut output = Vec::new();
            // Fails if another process still has the pipe.
            drop(life.output.read_to_end(&mut output));
            let what = What::Ended {
                wait_status: status,
                output: String::from_utf8_lossy(&output).into_owned(),
            };
            self.news.push((life.order.id.clone(), what));
            if !life.is_exec {
                self.removals.add(due, life.order);
            }
        }
        self.removals.sweep(now);
    }

    pub(crate) fn send_line(&mut self, id: &str, line: &str) {
        if let Some(life) = self.lives.iter_mut().find(|life| life.order.id == id) {
            // The process may have exited.
            drop(life.input.write_all(format!("{line}\n").as_bytes()));
        }
    }

    pub(crate) fn signal(&self, id: &str, number: i32) {
        let life = self.lives.iter().find(|life| life.order.id == id);
        let target = life.and_then(|life| life.init);
        if let (Some(pid), Ok(signal)) = (target, Signal::try_from(number)) {
            // Not reaped yet, so no other process has the pid.
            kill(Pid::from_raw(pid), signal).ok();
        }
    }
}

/// The wait status of a container with an init process that never printed a line.
const fn killed_early(stage: i32) -> i32 {
    if stage == 0 {
        Signal::SIGKILL as i32
    } else {
        stage
    }
}

/// Reads the available lines of a container.
fn hear(life: &mut Life, news: &mut Vec<(String, What)>) {
    let mut block = [0; 1024];
    loop {
        match life.words.read(&mut block) {
            Ok(0) => {
                life.silent = true;
                break;
            }
            Ok(read) => life.wait_line.extend(block.iter().take(read)),
            Err(_) => break,
        }
    }
    while let Some(end) = life.wait_line.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = life.wait_line.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let id = life.order.id.clone();
        if line == "waits" {
            news.push((id, begin(life)));
            continue;
        }
        let what = match line.split_once(' ') {
            Some(("init", pid)) => {
                let pid = pid.parse().expect("/proc/self names a pid");
                life.init = Some(pid);
                if life.is_exec {
                    // The container may be gone.
                    task::write_pid(&life.order.bundle, &id, pid).ok();
                }
                What::Created { pid }
            }
            Some(("failed", reason)) => What::Failed(reason.to_owned()),
            Some(("running", at)) => What::Running {
                at_ns: at.parse().expect("it writes a number"),
            },
            _ => What::Line(line),
        };
        news.push((id, what));
    }
}

/// Starts the init process that waits.
fn begin(life: &Life) -> What {
    let (Some(task), Some(init)) = (&life.order.task, life.init) else {
        return What::Failed("a process waits and is never started".to_owned());
    };
    match task::start(&life.order, task, init) {
        Ok(()) => What::Started,
        Err(reason) => What::Failed(reason),
    }
}
