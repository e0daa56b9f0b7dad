//! The containers of a pod, as their shim sees them.
//!
//! A container has up to three processes over its life: the stage, a child of
//! the shim; its child, the init process, which the shim inherits; and what
//! the init process starts. The shim learns the init process's pid from its
//! first line, and may reap it before it has read that line.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use usher_tests::synthetic::layout;
use usher_tests::synthetic::wire::{Order, What};

use crate::bundle;

/// One container that was begun and has not ended.
pub(crate) struct Life {
    order: Order,
    stage: i32,
    stage_status: Option<i32>,
    init: Option<i32>,
    input: ChildStdin,
    /// Read at the end only.
    output: File,
    /// Lines, for the shim.
    words: File,
    heard: Vec<u8>,
    silent: bool,
}

impl Life {
    /// Starts the first process of a container.
    pub(crate) fn begin(order: Order) -> Result<Self, String> {
        let json = serde_json::to_string(&order).map_err(|error| format!("order: {error}"))?;
        let mut child = Command::new("/proc/self/exe")
            .arg("stage")
            .arg(json)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("spawn stage: {error}"))?;
        let output = child.stdout.take().expect("piped above");
        let words = child.stderr.take().expect("piped above");
        Ok(Self {
            order,
            stage: i32::try_from(child.id()).expect("pids are small"),
            stage_status: None,
            init: None,
            input: child.stdin.take().expect("piped above"),
            output: quiet(output.into())?,
            words: quiet(words.into())?,
            heard: Vec::new(),
            silent: false,
        })
    }
}

/// Makes reads of an empty pipe return instead of wait.
fn quiet(pipe: OwnedFd) -> Result<File, String> {
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(|error| format!("fcntl: {error}"))?;
    Ok(File::from(pipe))
}

/// All containers of the pod.
#[derive(Default)]
pub(crate) struct Lives {
    lives: Vec<Life>,
    /// Reaped, and not yet known whose.
    strays: HashMap<i32, i32>,
    news: Vec<(String, What)>,
    /// Reaped, with their wait status, until their time to be removed.
    leaving: Vec<(Instant, Life, i32)>,
    /// Cgroups whose removal is to be tried again.
    removals: Vec<(Instant, PathBuf)>,
}

impl Lives {
    pub(crate) fn add(&mut self, life: Life) {
        self.lives.push(life);
    }

    /// What to poll.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        let speaking = self.lives.iter().filter(|life| !life.silent);
        speaking.map(|life| PollFd::new(life.words.as_fd(), PollFlags::POLLIN))
    }

    /// A child has ended.
    pub(crate) fn reaped(&mut self, pid: i32, status: i32) {
        match self.lives.iter_mut().find(|life| life.stage == pid) {
            Some(life) => life.stage_status = Some(status),
            None => drop(self.strays.insert(pid, status)),
        }
    }

    /// Reads what containers say, and finds out which of them have ended.
    pub(crate) fn listen(&mut self) {
        for life in &mut self.lives {
            hear(life, &mut self.news);
        }
        let (mut ended, mut living) = (Vec::new(), Vec::new());
        for life in self.lives.drain(..) {
            let status = match life.init {
                Some(init) => self.strays.remove(&init),
                // It was killed before it could say who it is.
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

    /// What happened since the last call.
    pub(crate) fn news(&mut self) -> Vec<(String, What)> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn next_sweep(&self) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|(due, ..)| *due);
        leaving
            .chain(self.removals.iter().map(|(due, _)| *due))
            .min()
    }

    /// Tells of the containers that ended long enough ago, and removes them.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let (due, leaving) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|(due, ..)| *due <= now);
        self.leaving = leaving;
        for (due, mut life, status) in due {
            hear(&mut life, &mut self.news);
            let mut output = Vec::new();
            // Ends with an error where another process still has the pipe.
            drop(life.output.read_to_end(&mut output));
            let what = What::Ended {
                wait_status: status,
                output: String::from_utf8_lossy(&output).into_owned(),
            };
            self.news.push((life.order.id.clone(), what));
            bundle::close(&life.order.bundle);
            if let Some(monitor) = life.order.monitor {
                drop(std::fs::remove_dir(monitor));
            }
            self.removals.push((due, life.order.cgroup));
        }
        self.removals.retain_mut(|(due, path)| {
            if *due > now {
                return true;
            }
            // With a directory of its own below it, it is the same to rmdir.
            layout::remove_tree(path);
            let busy = path.exists();
            *due = now + Duration::from_millis(1);
            busy
        });
    }

    pub(crate) fn tell(&mut self, id: &str, line: &str) {
        if let Some(life) = self.lives.iter_mut().find(|life| life.order.id == id) {
            // It may have ended on its own.
            drop(life.input.write_all(format!("{line}\n").as_bytes()));
        }
    }

    pub(crate) fn signal(&self, id: &str, number: i32) {
        let life = self.lives.iter().find(|life| life.order.id == id);
        let target = life.and_then(|life| life.init);
        if let (Some(pid), Ok(signal)) = (target, Signal::try_from(number)) {
            // Not reaped yet, so the pid is still its own.
            kill(Pid::from_raw(pid), signal).ok();
        }
    }
}

/// How a container ended whose init process never spoke.
const fn killed_early(stage: i32) -> i32 {
    if stage == 0 {
        Signal::SIGKILL as i32
    } else {
        stage
    }
}

/// Reads the container's lines as far as they are there.
fn hear(life: &mut Life, news: &mut Vec<(String, What)>) {
    let mut block = [0; 1024];
    loop {
        match life.words.read(&mut block) {
            Ok(0) => {
                life.silent = true;
                break;
            }
            Ok(read) => life.heard.extend(block.iter().take(read)),
            Err(_) => break,
        }
    }
    while let Some(end) = life.heard.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = life.heard.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let what = match line.split_once(' ') {
            Some(("init", pid)) => {
                let pid = pid.parse().expect("/proc/self names a pid");
                life.init = Some(pid);
                What::Created { pid }
            }
            Some(("failed", reason)) => What::Failed(reason.to_owned()),
            _ if line == "running" => What::Running,
            _ => What::Said(line),
        };
        news.push((life.order.id.clone(), what));
    }
}
