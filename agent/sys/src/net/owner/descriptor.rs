//! The sockets among the descriptors of a process.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt, net::UnixDatagram},
    },
    path::Path,
};

use nix::{
    fcntl::{OFlag, openat, readlinkat},
    sys::stat::Mode,
};
use usher_core::base::id::Pid;

use crate::{net::netns::has_ended, pods::proc::ProcRoot};

/// Remaining budget, and the identity of the file system of sockets.
pub(super) struct Look {
    /// Number of descriptors that may still be read.
    left: usize,
    /// The mount of all sockets of the machine.
    mount: u64,
}

impl Look {
    pub(super) fn new(most: usize) -> io::Result<Self> {
        let own = UnixDatagram::unbound()?;
        let file = format!("/proc/self/fdinfo/{}", own.as_raw_fd());
        let text = fs::read(file)?;
        // Kernels before 5.14 have no inode numbers there, so only the links are used.
        let mount = number(&text, b"mnt_id:").unwrap_or(u64::MAX);
        Ok(Self { left: most, mount })
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Passes the inode number of each socket of a process to `take`. A process that has exited has no sockets.
    pub(super) fn at(
        &mut self,
        proc: &ProcRoot,
        pid: Pid,
        mut take: impl FnMut(u32),
    ) -> io::Result<()> {
        let looked = match self.links(&proc.path(pid, "fd"), &mut take) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.infos(&proc.path(pid, "fdinfo"), &mut take)
            }
            looked => looked,
        };
        match looked {
            Err(error) if has_ended(&error) => Ok(()),
            looked => looked,
        }
    }

    fn links(&mut self, path: &Path, take: &mut impl FnMut(u32)) -> io::Result<()> {
        let directory = directory(path)?;
        for entry in fs::read_dir(path)? {
            if self.left == 0 {
                return Ok(());
            }
            self.left -= 1;
            match readlinkat(&directory, entry?.file_name().as_os_str()) {
                Ok(target) => {
                    if let Some(inode) = socket(target.as_bytes()) {
                        take(inode);
                    }
                }
                // The descriptor was closed in the meantime.
                Err(nix::errno::Errno::ENOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn infos(&mut self, path: &Path, take: &mut impl FnMut(u32)) -> io::Result<()> {
        let directory = directory(path)?;
        let mut text = [0; 512];
        for entry in fs::read_dir(path)? {
            if self.left == 0 {
                return Ok(());
            }
            self.left -= 1;
            let name = entry?.file_name();
            let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
            let file = match openat(&directory, name.as_os_str(), flags, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(nix::errno::Errno::ENOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let length = { file }
                .read(&mut text)
                .or_else(|error| if has_ended(&error) { Ok(0) } else { Err(error) })?;
            let text = &text[..length];
            if number(text, b"mnt_id:") == Some(self.mount)
                && let Some(inode) = number(text, b"ino:")
                && let Ok(inode) = inode.try_into()
            {
                take(inode);
            }
        }
        Ok(())
    }
}

fn directory(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECTORY);
    options.open(path)
}

/// The number in `socket:[123]`.
fn socket(link: &[u8]) -> Option<u32> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The number after a word at the start of a line.
fn number(text: &[u8], word: &[u8]) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let rest = lines.find_map(|line| line.strip_prefix(word))?;
    std::str::from_utf8(rest).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_sockets() {
        assert_eq!(socket(b"socket:[4026531840]"), Some(4_026_531_840));
        for link in ["", "/socket:[1]", "socket:[1", "socket:[]", "pipe:[1]"] {
            assert_eq!(socket(link.as_bytes()), None, "{link}");
        }
        let text = b"pos:\t0\nflags:\t02000002\nmnt_id:\t10\nino:\t20057894\n";
        assert_eq!(number(text, b"mnt_id:"), Some(10));
        assert_eq!(number(text, b"ino:"), Some(20_057_894));
        assert_eq!(number(text, b"tfd:"), None);
        assert_eq!(number(b"ino:\tx\n", b"ino:"), None);
    }

    #[test]
    fn links_and_fdinfo_list_the_same_sockets() {
        let sockets = [(); 3].map(|()| UnixDatagram::unbound().unwrap());
        let own = Path::new("/proc/self");
        let wanted: Vec<u32> = sockets
            .iter()
            .map(|socket| own.join(format!("fd/{}", socket.as_raw_fd())))
            .map(|link| fs::read_link(link).unwrap())
            .map(|link| socket(link.as_os_str().as_bytes()).unwrap())
            .collect();
        let mut look = Look::new(1 << 16).unwrap();
        let (mut links, mut infos) = (Vec::new(), Vec::new());
        look.links(&own.join("fd"), &mut |inode| links.push(inode))
            .unwrap();
        look.infos(&own.join("fdinfo"), &mut |inode| infos.push(inode))
            .unwrap();
        for inode in wanted {
            assert!(links.contains(&inode) && infos.contains(&inode));
        }
        let mut few = Look::new(2).unwrap();
        few.links(&own.join("fd"), &mut |_| {}).unwrap();
        assert!(few.is_exhausted());
    }
}
