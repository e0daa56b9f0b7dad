//! The work of the kernel between an app's last instruction and the request, from its own trace.
//!
//! The kernel's tracing file system is mounted in a mount namespace of one thread, so that nothing of it is left
//! behind. The trace uses an instance of its own.
//! <https://docs.kernel.org/trace/ftrace.html>

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// The mount point of the tracing file system; the directory exists if the kernel can trace.
const PLACE: &str = "/sys/kernel/tracing";
const INSTANCE: &str = "instances/usher-bench";
const EVENTS: [&str; 7] = [
    "sched/sched_process_exit",
    "sched/sched_waking",
    "sched/sched_switch",
    "syscalls/sys_enter_sendto",
    "syscalls/sys_enter_writev",
    "syscalls/sys_enter_sendmsg",
    "syscalls/sys_enter_recvmsg",
];
const KIB: &str = "4096";

/// One line of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The time, by the clock of the apps' stamps.
    pub(crate) at: Duration,
    /// The running thread.
    pub(crate) thread: i32,
    /// The name of the event.
    pub(crate) what: String,
    /// The thread that is woken, or that runs next.
    pub(crate) other: Option<i32>,
}

/// A trace that can be read repeatedly.
#[derive(Debug)]
pub(crate) struct Trace {
    text: File,
    switch: File,
    /// When it closes, the thread exits and removes the instance.
    _open: mpsc::Sender<()>,
    _thread: JoinHandle<()>,
}

impl Trace {
    /// Starts a trace; the error explains why there is none.
    pub(crate) fn begin() -> io::Result<Self> {
        let (open, closed) = mpsc::channel::<()>();
        let (report, prepared) = mpsc::channel();
        let thread = thread::spawn(move || {
            let opened = set_up();
            let is_open = opened.is_ok();
            drop(report.send(opened));
            if is_open {
                // It receives nothing, and returns when the other end is dropped.
                closed.recv().ok();
            }
            drop(fs::remove_dir(Path::new(PLACE).join(INSTANCE)));
        });
        let gone = |_gone| io::Error::other("its thread ended");
        let (text, switch) = prepared.recv().map_err(gone)??;
        Ok(Self {
            text,
            switch,
            _open: open,
            _thread: thread,
        })
    }

    /// The trace of this action.
    pub(crate) fn of<T>(&mut self, act: impl FnOnce() -> T) -> io::Result<(T, Vec<Mark>)> {
        self.switch.write_all(b"1")?;
        let done = act();
        self.switch.write_all(b"0")?;
        let mut text = String::new();
        self.text.rewind()?;
        self.text.read_to_string(&mut text)?;
        // An open with truncation empties it, and no other thread finds its path.
        File::create(format!("/proc/self/fd/{}", self.text.as_raw_fd()))?;
        Ok((done, text.lines().filter_map(read).collect()))
    }
}

fn set_up() -> io::Result<(File, File)> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(
        Some("tracefs"),
        PLACE,
        Some("tracefs"),
        MsFlags::empty(),
        none,
    )?;
    let place = Path::new(PLACE).join(INSTANCE);
    if !place.exists() {
        fs::create_dir(&place)?;
    }
    let set = |name: &str, value: &str| fs::write(place.join(name), value);
    set("tracing_on", "0")?;
    set("trace_clock", "mono")?;
    set("buffer_size_kb", KIB)?;
    for event in EVENTS {
        set(&format!("events/{event}/enable"), "1")?;
    }
    let open = |name: &str| {
        File::options()
            .read(true)
            .write(true)
            .open(place.join(name))
    };
    Ok((open("trace")?, open("tracing_on")?))
}

/// `  name-PID  [CPU] flags SECONDS.MICROS: what: more`, or `what(more)` of a system call.
fn read(line: &str) -> Option<Mark> {
    let (head, rest) = line.split_once(" [")?;
    let (_name, thread) = head.rsplit_once('-')?;
    let (_cpu, rest) = rest.split_once(']')?;
    let (when, rest) = rest.split_once(": ")?;
    let (seconds, micros) = when.split_whitespace().last()?.split_once('.')?;
    let at =
        Duration::from_secs(seconds.parse().ok()?) + Duration::from_micros(micros.parse().ok()?);
    let end = rest.find([':', '(']).unwrap_or(rest.len());
    let (what, more) = rest.split_at(end);
    let other = |field: &str| {
        more.split_once(field)?
            .1
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    Some(Mark {
        at,
        thread: thread.trim().parse().ok()?,
        what: what.to_owned(),
        other: other(" next_pid=").or_else(|| other(" pid=")),
    })
}
