//! The processes in `/proc` of the host.
//!
//! A process may exit between any two reads, which is an ordinary result and not an error. The procfs crate decodes
//! numbers (after checks in [`text`]), and `usher_core` decodes cgroup and mountinfo.

mod mounts;
pub mod text;

use std::{
    fs::{self, File},
    io::{self, IoSliceMut, Read},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::uio::{RemoteIoVec, process_vm_readv},
};
use procfs::{
    ProcError,
    process::{Process, Stat, StatFlags},
};
use usher_core::{
    base::id::{ContainerKey, Pid},
    node::{cgroup, init_process::Candidate},
};

const ENVIRONMENT_MAX: usize = 256 * 1024;
/// Limit of a file: about 25,000 mounts of a node.
const TEXT_MAX: u64 = 8 * 1024 * 1024;
/// Initial buffer, which most files fit in. Without it reads would start at 32 bytes.
const TEXT_AS_A_RULE: usize = 2048;

/// A mount of procfs that shows the host's processes.
#[derive(Debug, Clone)]
pub struct ProcRoot(PathBuf);

/// A file in `/proc` could not be read although the process exists.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path:?} has an unknown format")]
    Form {
        path: PathBuf,
        source: Box<ProcError>,
    },
}

impl ProcRoot {
    /// Takes the mount point of procfs.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self, pid: Pid, file: &str) -> PathBuf {
        self.0.join(pid.to_string()).join(file)
    }

    /// All processes, in no particular order. Any of them may exit at any time.
    pub fn pids(&self) -> Result<impl Iterator<Item = Pid> + use<>, Error> {
        let entries = fs::read_dir(&self.0).map_err(|source| Error::Read {
            path: self.0.clone(),
            source,
        })?;
        let number = |name: std::ffi::OsString| name.to_str()?.parse().ok();
        Ok(entries.filter_map(move |entry| number(entry.ok()?.file_name()).map(Pid)))
    }

    /// The properties of `pid` that the choice of an init process depends on; None if it has exited.
    pub fn candidate(&self, pid: Pid) -> Result<Option<Candidate>, Error> {
        self.decoded(pid, |process| {
            let status = bytes(process, "status")?;
            text::candidate(pid, &status, &bytes(process, "stat")?)
        })
    }

    /// The name of a process (`comm`); None if it has exited.
    pub fn name(&self, pid: Pid) -> Result<Option<String>, Error> {
        let text = self.read(&self.path(pid, "comm"))?;
        Ok(text.map(|name| name.trim_end_matches('\n').to_owned()))
    }

    /// The value of a variable in the initial environment of a process; None if the variable is not set or the process
    /// has exited.
    pub fn variable(&self, pid: Pid, name: &str) -> Result<Option<String>, Error> {
        let environment = self.environment(pid)?;
        let mut variables = environment.split(|byte| *byte == 0);
        Ok(variables.find_map(|variable| {
            let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        }))
    }

    /// The environment; empty if the process has exited.
    ///
    /// It is read from the process's memory, which needs only CAP_SYS_PTRACE. The file `environ` (owner, mode 0400)
    /// would need CAP_DAC_READ_SEARCH as well.
    fn environment(&self, pid: Pid) -> Result<Vec<u8>, Error> {
        let path = self.path(pid, "environ");
        let fail = |source| Error::Read {
            path: path.clone(),
            source,
        };
        let Some(stat) = self.stat(pid)? else {
            return Ok(Vec::new());
        };
        let (start, end) = (
            stat.env_start.unwrap_or_default(),
            stat.env_end.unwrap_or_default(),
        );
        // The kernel returns zero without the permission.
        if start == 0 {
            return Err(fail(io::ErrorKind::PermissionDenied.into()));
        }
        let base = usize::try_from(start).unwrap_or_default();
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or_default();
        let mut bytes = vec![0; length.min(ENVIRONMENT_MAX)];
        let remote = RemoteIoVec {
            base,
            len: bytes.len(),
        };
        let process = nix::unistd::Pid::from_raw(pid.0);
        match process_vm_readv(process, &mut [IoSliceMut::new(&mut bytes)], &[remote]) {
            Ok(count) => bytes.truncate(count),
            Err(Errno::ESRCH) => bytes.clear(),
            Err(source) => return Err(fail(source.into())),
        }
        Ok(bytes)
    }

    /// Whether a process is in the cgroup of this container; false if it has exited.
    pub fn is_in(&self, pid: Pid, key: &ContainerKey) -> Result<bool, Error> {
        let text = self.read(&self.path(pid, "cgroup"))?;
        let found = text.as_deref().and_then(cgroup::of_process);
        Ok(found.is_some_and(|(pod, id)| pod == key.pod && id == key.id))
    }

    /// Whether a process has executed a program since its fork; None if it has been reaped. The kernel keeps this in a
    /// flag of the task ([PF_FORKNOEXEC](https://github.com/torvalds/linux/blob/v6.12/include/linux/sched.h)),
    /// which is readable without privileges.
    pub fn has_executed(&self, pid: Pid) -> Result<Option<bool>, Error> {
        let forked = StatFlags::PF_FORKNOEXEC.bits();
        let stat = self.stat(pid)?;
        Ok(stat.map(|stat| stat.flags & forked == 0))
    }

    fn stat(&self, pid: Pid) -> Result<Option<Stat>, Error> {
        self.decoded(pid, |process| text::stat(&bytes(process, "stat")?))
    }

    fn decoded<T>(
        &self,
        pid: Pid,
        decode: impl FnOnce(&Process) -> Result<T, ProcError>,
    ) -> Result<Option<T>, Error> {
        let path = self.0.join(pid.to_string());
        match Process::new_with_root(path.clone()).and_then(|process| decode(&process)) {
            Ok(decoded) => Ok(Some(decoded)),
            Err(ProcError::NotFound(_)) => Ok(None),
            Err(ProcError::Io(source, _)) if ended(&source) => Ok(None),
            Err(source) => Err(Error::Form {
                path,
                source: Box::new(source),
            }),
        }
    }

    fn read(&self, path: &Path) -> Result<Option<String>, Error> {
        self.read_at_most(path, TEXT_MAX)
    }

    fn read_at_most(&self, path: &Path, limit: u64) -> Result<Option<String>, Error> {
        let read = || {
            let mut bytes = Vec::with_capacity(TEXT_AS_A_RULE);
            File::open(path)?.take(limit).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(lossy(bytes))),
            Err(source) if ended(&source) => Ok(None),
            Err(source) => Err(Error::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }
}

/// Mount points can contain any bytes. Each invalid byte becomes another one, so that the length shows whether a limit was
/// reached.
fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let chunks = error.as_bytes().utf8_chunks();
        let parts = chunks.flat_map(|chunk| {
            // An invalid sequence has up to three bytes.
            let replaced = "???".get(..chunk.invalid().len());
            [chunk.valid(), replaced.unwrap_or_default()]
        });
        parts.collect()
    })
}

fn bytes(process: &Process, file: &str) -> Result<Vec<u8>, ProcError> {
    let mut bytes = Vec::with_capacity(TEXT_AS_A_RULE);
    process.open_relative(file)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the error means that the process has exited: `ENOENT` before the file is open, `ESRCH` afterwards, `EINVAL`
/// for the mounts of a zombie.
fn ended(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ESRCH | libc::EINVAL)
    )
}

#[cfg(test)]
mod tests;
