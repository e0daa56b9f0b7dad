//! Probes single features of the kernel, and permissions of this process, by using them. No probe leaves a trace.
//!
//! Used by `usher check`. Features that need a network namespace are probed by [`crate::net::nft::probe`].

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::{
        inotify::{InitFlags, Inotify},
        wait::{WaitStatus, waitpid},
    },
    unistd::{AccessFlags, ForkResult, access, fork},
};
use usher_core::{base::id::Pid, pod::exit_status::ExitStatus};

use crate::pods::pidfd::Pidfd;

/// Exit code of the probe's child process.
const CODE: u8 = 42;

/// The kernel's release (`uname -r`).
pub fn release() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(text.trim().to_owned())
}

/// Creates one more inotify instance.
///
/// # Errors
/// `EMFILE` if the user has reached the limit.
pub fn inotify() -> io::Result<()> {
    let instance = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC);
    Ok(instance.map(drop)?)
}

/// A limit of the kernel in `/proc/sys`; None if it cannot be read.
pub fn limit(name: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
    text.trim().parse().ok()
}

/// Whether this process may create and replace files in a directory. Checked without a write, because other programs
/// watch such directories.
///
/// # Errors
/// `EACCES`, or `EROFS` for a read-only mount.
pub fn writable(directory: &Path) -> io::Result<()> {
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(
        directory,
        AccessFlags::W_OK | AccessFlags::X_OK | AccessFlags::R_OK,
    )?)
}

/// Like [`writable`], for a directory that may not exist yet: checks its nearest existing ancestor, and returns it.
pub fn creatable(directory: &Path) -> io::Result<PathBuf> {
    let existing = directory
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    writable(existing).map(|()| existing.to_owned())
}

/// Waits for a child process by pidfd, and returns whether the kernel reported its exit status. Requires a tokio
/// runtime on the thread; takes some milliseconds.
#[expect(unsafe_code, reason = "fork")]
pub async fn process() -> io::Result<bool> {
    // SAFETY: the child makes one system call, which is allowed after a fork in a process with other threads.
    let child = match unsafe { fork() }? {
        // SAFETY: it never returns, and runs no code of this program.
        ForkResult::Child => unsafe { libc::_exit(CODE.into()) },
        ForkResult::Parent { child } => child,
    };
    // The child has not been reaped, so its pid cannot have been reused.
    let opened = Pidfd::open(Pid(child.as_raw()));
    let Ok(pidfd) = opened else {
        drop(reap(child));
        return opened.map(|_| false).map_err(io::Error::other);
    };
    pidfd.exited().await;
    reap(child)?;
    Ok(matches!(pidfd.reaped().await, Some(ExitStatus::Code(CODE))))
}

fn reap(child: nix::unistd::Pid) -> io::Result<WaitStatus> {
    loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn this_kernel() {
        let release = release().unwrap();
        let reported = process().await.unwrap();
        let mut numbers = release
            .split('.')
            .map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(reported, version >= (6, 15), "{release}");
        inotify().unwrap();
        assert!(limit("fs/inotify/max_user_watches").is_some());
        assert_eq!(limit("fs/inotify/no_such"), None);
    }

    #[test]
    fn writable_and_unwritable_directories() {
        writable(&std::env::temp_dir()).unwrap();
        let absent = std::env::temp_dir().join("no/such");
        assert_eq!(
            writable(&absent).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(creatable(&absent).unwrap(), std::env::temp_dir());
        let error = writable(Path::new("/proc/self/stat")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        let error = writable(Path::new("/proc/sys/kernel")).unwrap_err();
        assert!(
            [Some(libc::EACCES), Some(libc::EROFS)].contains(&error.raw_os_error()),
            "{error}"
        );
    }
}
