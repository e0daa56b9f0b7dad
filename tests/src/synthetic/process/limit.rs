//! Cgroups that limit memory or the share of the CPU.
//!
//! On cgroup v1 a controller has a hierarchy of its own, on v2 all are in one
//! ([cgroup-v1](https://docs.kernel.org/admin-guide/cgroup-v1/index.html),
//! [cgroup-v2](https://docs.kernel.org/admin-guide/cgroup-v2.html)); on a hybrid machine v1 has them.

use std::path::PathBuf;

use crate::synthetic::layout;

/// The limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    Memory,
    /// CPU time, shared in proportion.
    Cpu,
}

/// A cgroup with one such controller. On drop its processes are killed and it is removed.
#[derive(Debug)]
pub struct Limited {
    path: PathBuf,
    is_v1: bool,
    controller: Controller,
}

impl Controller {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }

    /// Its directory on v1, if it exists.
    fn v1(self) -> Option<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        mounts.lines().find_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let options = file_system.strip_prefix("cgroup ")?.rsplit(' ').next()?;
            let is_it = options.split(',').any(|option| option == self.name());
            is_it.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
        })
    }
}

impl Limited {
    /// Creates a cgroup of this name; None if the machine does not have the controller.
    pub fn make(controller: Controller, name: &str) -> Option<Self> {
        let v1 = controller.v1();
        let is_v1 = v1.is_some();
        let mount = v1.or_else(layout::cgroup2_mount)?;
        if !is_v1 {
            let enable = format!("+{}", controller.name());
            std::fs::write(mount.join("cgroup.subtree_control"), enable).ok()?;
        }
        let path = mount.join(layout::name(name));
        std::fs::create_dir(&path).ok()?;
        Some(Self {
            path,
            is_v1,
            controller,
        })
    }

    /// Sets its limit: bytes, or hundredths of a CPU in competition with others.
    ///
    /// # Panics
    ///
    /// If the kernel rejects it.
    pub fn set(&self, limit: u64) {
        let (file, value) = match (self.controller, self.is_v1) {
            (Controller::Memory, true) => ("memory.limit_in_bytes", limit),
            (Controller::Memory, false) => ("memory.max", limit),
            // As the kubelet does: 1024 shares, or a weight of 39, are one CPU.
            (Controller::Cpu, true) => ("cpu.shares", limit * 1024 / 100),
            (Controller::Cpu, false) => ("cpu.weight", (limit * 39 / 100).max(1)),
        };
        self.write(file, &value.to_string());
    }

    /// Moves a process into it.
    ///
    /// # Panics
    ///
    /// If the process has exited.
    pub fn take(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }

    /// The file that a process enters with its pid.
    pub fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// A shell command that moves its process into it and executes its remaining arguments.
    pub fn command(&self) -> [String; 2] {
        let procs = self.path.join("cgroup.procs");
        let script = format!("echo $$ > {}; exec \"$@\"", procs.display());
        ["-c".to_owned(), script]
    }

    /// The most memory that its processes had, in bytes.
    ///
    /// # Panics
    ///
    /// If the kernel does not report it.
    pub fn peak(&self) -> u64 {
        let file = if self.is_v1 {
            "memory.max_usage_in_bytes"
        } else {
            "memory.peak"
        };
        let text = std::fs::read_to_string(self.path.join(file)).expect("the cgroup exists");
        text.trim().parse().expect("a number")
    }

    /// How often the kernel killed one of its processes at its limit.
    ///
    /// # Panics
    ///
    /// If the kernel does not report it.
    pub fn kills(&self) -> u64 {
        let file = if self.is_v1 {
            "memory.oom_control"
        } else {
            "memory.events"
        };
        let text = std::fs::read_to_string(self.path.join(file)).expect("the cgroup exists");
        let mut counts = text
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill "));
        let count = counts.next().expect("Linux 4.13 and later");
        count.trim().parse().expect("a number")
    }

    fn write(&self, file: &str, value: &str) {
        let path = self.path.join(file);
        std::fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        layout::remove_cgroup(&self.path);
    }
}
