//! Measurements of a process from `/proc`: memory, CPU time, wake-ups, descriptors.

pub mod inventory;
pub mod limit;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// The resource usage of a process so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// `VmRSS`, in KiB.
    pub resident_kib: u64,
    /// `RssAnon`, in KiB: the part without pages of the program's file.
    pub anonymous_kib: u64,
    /// `VmHWM`, in KiB: the peak.
    pub peak_kib: u64,
    /// User and system time of all threads.
    pub cpu: Duration,
    /// Voluntary context switches of all threads: the number of sleeps, and so
    /// of wake-ups.
    pub wakeups: u64,
    /// Involuntary context switches.
    pub preemptions: u64,
}

impl Usage {
    /// Reads the usage of a process.
    ///
    /// # Panics
    ///
    /// If there is no such process.
    pub fn of(pid: u32) -> Self {
        let status = read(pid, "status");
        let (mut wakeups, mut preemptions, mut cpu_ns) = (0, 0, 0);
        for task in entries(pid, "task") {
            // A thread may exit during the read.
            let text = std::fs::read_to_string(task.join("status")).unwrap_or_default();
            wakeups += number(&text, "voluntary_ctxt_switches:");
            preemptions += number(&text, "nonvoluntary_ctxt_switches:");
            let times = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            cpu_ns += first_number(&times);
        }
        // schedstat has nanoseconds, if the kernel provides it; stat has ticks.
        let cpu = if cpu_ns > 0 {
            Duration::from_nanos(cpu_ns)
        } else {
            ticks(pid)
        };
        Self {
            resident_kib: number(&status, "VmRSS:"),
            anonymous_kib: number(&status, "RssAnon:"),
            peak_kib: number(&status, "VmHWM:"),
            cpu,
            wakeups,
            preemptions,
        }
    }

    /// The sum over a process and its children, such as the agent and its worker.
    ///
    /// # Panics
    ///
    /// If there is no such process, or one of them ends.
    pub fn with_children(pid: u32) -> Self {
        let children = children(pid).into_iter().map(Self::of);
        children.fold(Self::of(pid), |sum, one| Self {
            resident_kib: sum.resident_kib + one.resident_kib,
            anonymous_kib: sum.anonymous_kib + one.anonymous_kib,
            peak_kib: sum.peak_kib + one.peak_kib,
            cpu: sum.cpu + one.cpu,
            wakeups: sum.wakeups + one.wakeups,
            preemptions: sum.preemptions + one.preemptions,
        })
    }
}

/// Fields 14 and 15 of `/proc/<pid>/stat`
/// ([proc_pid_stat(5)](https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)).
fn ticks(pid: u32) -> Duration {
    let stat = read(pid, "stat");
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields = after_name.split(' ').skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    let per_second = u64::try_from(per_second).unwrap_or(100);
    Duration::from_millis(ticks * 1000 / per_second)
}

/// The main thread of a process, stopped as by a debugger: `PTRACE_SEIZE` and `PTRACE_INTERRUPT`
/// ([ptrace(2)](https://man7.org/linux/man-pages/man2/ptrace.2.html)), which affect only one
/// thread. The thread that stops it has to release it.
#[derive(Debug)]
pub struct Traced(Pid);

impl Traced {
    /// Stops it.
    ///
    /// # Panics
    ///
    /// If ptrace is not permitted here.
    pub fn stop(pid: u32) -> Self {
        let main = Pid::from_raw(i32::try_from(pid).expect("pids are small"));
        ptrace::seize(main, ptrace::Options::empty()).expect("root may trace");
        ptrace::interrupt(main).expect("it is traced");
        waitpid(main, Some(WaitPidFlag::__WALL)).expect("it stops");
        Self(main)
    }

    /// Releases it. It may have been killed.
    pub fn release(self) {
        if ptrace::detach(self.0, None).is_err() {
            // The tracer is notified of a thread's death before its parent.
            waitpid(self.0, Some(WaitPidFlag::__WALL)).ok();
        }
    }
}

/// The children of all threads of a process; empty if it has exited.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let children = tasks.map(|task| task.path().join("children"));
    let texts = children.filter_map(|path| std::fs::read_to_string(path).ok());
    let words = texts.flat_map(|text| {
        let pids = text.split_whitespace().filter_map(|word| word.parse().ok());
        pids.collect::<Vec<u32>>()
    });
    words.collect()
}

/// The arguments of a process; empty if it has exited.
pub fn command_line(pid: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// The state of a process, as `ps` shows it
/// ([proc_pid_stat(5)](https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)).
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

pub fn open_descriptors(pid: u32) -> usize {
    entries(pid, "fd").len()
}

/// Whether this process has an open pidfd of another one
/// ([proc_pid_fdinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_fdinfo.5.html)).
pub fn has_pidfd(pid: u32, of: i32) -> bool {
    let line = format!("Pid:\t{of}");
    entries(pid, "fdinfo").iter().any(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|found| found == line)
    })
}

/// The network namespaces that this process holds open, as `net:[inode]`.
pub fn held_networks(pid: u32) -> BTreeSet<String> {
    let links = entries(pid, "fd");
    let targets = links
        .iter()
        .filter_map(|link| std::fs::read_link(link).ok());
    targets
        .filter_map(|target| target.to_str().map(str::to_owned))
        .filter(|target| target.starts_with("net:["))
        .collect()
}

/// The network namespace that a process is in, as `net:[inode]`.
pub fn network(pid: i32) -> Option<String> {
    let target = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    target.to_str().map(str::to_owned)
}

/// The network namespaces of all processes of the machine.
pub fn all_networks() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/proc").expect("proc is mounted");
    let pids = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<i32>().ok()
    });
    pids.filter_map(network).collect()
}

fn entries(pid: u32, directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/{directory}"));
    let entries = entries.expect("the process is there");
    entries.flatten().map(|entry| entry.path()).collect()
}

fn read(pid: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process is there")
}

fn number(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.map_or(0, first_number)
}

fn first_number(text: &str) -> u64 {
    let word = text.split_whitespace().next();
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}
