//! Single things that a kernel, or this process, may or may not do, found out by doing them. Nothing is left behind.
//!
//! Each is asked for by `usher check`. What needs a network namespace is in [`crate::net::nft::probe`].

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

/// What the process of our own ends with.
const CODE: u8 = 42;

/// The kernel's name of itself.
///
/// # Errors
/// Where `/proc` does not tell.
pub fn release() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(text.trim().to_owned())
}

/// One more inotify instance.
///
/// # Errors
/// What the kernel says: `EMFILE` where the user has none left.
pub fn inotify() -> io::Result<()> {
    let instance = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC);
    Ok(instance.map(drop)?)
}

/// A limit of the kernel in `/proc/sys`; None where it cannot be read.
pub fn limit(name: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
    text.trim().parse().ok()
}

/// Whether this process may make and replace files in a directory. It is asked and not tried: others watch such directories.
///
/// # Errors
/// What the kernel says: `EACCES`, or `EROFS` where it is mounted so.
pub fn writable(directory: &Path) -> io::Result<()> {
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(
        directory,
        AccessFlags::W_OK | AccessFlags::X_OK | AccessFlags::R_OK,
    )?)
}

/// The same for one that may not be there yet, and then for the one that it would be made in. Says which it was.
///
/// # Errors
/// As [`writable`].
pub fn creatable(directory: &Path) -> io::Result<PathBuf> {
    let there = directory.ancestors().find(|path| path.exists());
    let there = there.unwrap_or(Path::new("/"));
    writable(there).map(|()| there.to_owned())
}

/// Waits for a process of our own by pidfd, and says whether the kernel told how it ended. On a thread with a tokio
/// runtime; takes some milliseconds.
///
/// # Errors
/// Where there can be no such process, or it cannot be opened.
#[expect(unsafe_code, reason = "fork")]
pub async fn process() -> io::Result<bool> {
    // SAFETY: the child makes one system call, which is allowed after a fork whatever other threads do.
    let child = match unsafe { fork() }? {
        // SAFETY: it never returns, and runs nothing of this program.
        ForkResult::Child => unsafe { libc::_exit(CODE.into()) },
        ForkResult::Parent { child } => child,
    };
    // Not waited for yet, so the number is its own.
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
        let told = process().await.unwrap();
        let mut numbers = release
            .split('.')
            .map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(told, version >= (6, 15), "{release}");
        inotify().unwrap();
        assert!(limit("fs/inotify/max_user_watches").is_some());
        assert_eq!(limit("fs/inotify/no_such"), None);
    }

    #[test]
    fn directories_that_may_be_written_and_not() {
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
