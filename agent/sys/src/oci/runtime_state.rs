//! The state directory of a container, which a runtime's commands open first.
//!
//! runc keeps it in [`ROOT/ID/state.json`](https://github.com/opencontainers/runc/blob/v1.3.0/libcontainer/factory_linux.go),
//! crun in [`ROOT/ID/status`](https://github.com/containers/crun/blob/1.20/src/libcrun/status.c). Both replace the file by
//! rename, so the directory is what can be marked.

use std::{
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open},
    sys::stat::{Mode, SFlag, fstatat},
};
use usher_core::{
    base::id::{ContainerId, Pid},
    linger::LONGEST_COMMAND,
};

/// The files that the `kill` command of runc and crun opens first.
const FILES: [&str; 2] = ["state.json", "status"];

/// No directory contains the state of the container.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the runtime keeps no state of the container in {}", join(.roots))]
    Unknown { roots: Vec<PathBuf> },
    #[error("opening {path}")]
    Open { path: PathBuf, source: io::Error },
}

fn join(roots: &[PathBuf]) -> String {
    let roots: Vec<String> = roots
        .iter()
        .map(|root| root.display().to_string())
        .collect();
    roots.join(", ")
}

/// Opens the directory of a container's state with `O_PATH`. Uses the first of `roots` that has it.
pub fn open_directory(roots: &[PathBuf], container: &ContainerId) -> Result<OwnedFd, Error> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    for root in roots {
        let path = root.join(container.as_str());
        let directory = match open(&path, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::ENOENT | Errno::ENOTDIR) => continue,
            Err(errno) => {
                let source = errno.into();
                return Err(Error::Open { path, source });
            }
        };
        let is_file = |name: &str| {
            let status = fstatat(
                directory.as_fd(),
                Path::new(name),
                AtFlags::AT_SYMLINK_NOFOLLOW,
            );
            status.is_ok_and(|status| {
                SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
            })
        };
        if FILES.iter().any(|name| is_file(name)) {
            return Ok(directory);
        }
    }
    Err(Error::Unknown {
        roots: roots.to_vec(),
    })
}

/// The command line of a process, truncated at a limit; empty if the process has exited or is not visible.
pub fn command_line(pid: Pid) -> Vec<u8> {
    let mut line = Vec::new();
    if let Ok(file) = std::fs::File::open(format!("/proc/{}/cmdline", pid.0)) {
        let limit = u64::try_from(LONGEST_COMMAND).unwrap_or(u64::MAX);
        // A process that exits during the read has no command line.
        if file.take(limit).read_to_end(&mut line).is_err() {
            line.clear();
        }
    }
    line
}
