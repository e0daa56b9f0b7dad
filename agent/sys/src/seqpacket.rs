//! A Unix socket of type SOCK_SEQPACKET that takes messages with descriptors
//! ([unix(7)](https://man7.org/linux/man-pages/man7/unix.7.html)).
//!
//! tokio has streams and datagrams only. A listener is written for one question
//! and one answer per connection; a pair lasts.

mod message;
mod pair;

use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt,
        listen, socket, sockopt,
    },
};
use tokio::io::unix::AsyncFd;

use self::message::{receive_now, send_now};
pub use self::pair::{Plain, Received};
use crate::pods::readiness::register;

/// Connections that may wait to be accepted: the most that nix takes for a C
/// library whose `SOMAXCONN` is of old.
const BACKLOG: i32 = 128;
/// Owner only: whoever connects may have a pod's connections held.
const MODE: u32 = 0o600;

/// A socket that could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be bound.
    #[error("listening on {path:?}")]
    Bind {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No connection could be accepted.
    #[error("accepting a connection")]
    Accept(#[source] io::Error),
    /// A connection failed.
    #[error("{call} on a connection")]
    Connection {
        /// The call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    fd: AsyncFd<OwnedFd>,
}

impl Listener {
    /// Listens at a path, in place of what may be there: a socket that an
    /// earlier agent left, as a rule.
    ///
    /// # Errors
    /// [`Error::Bind`].
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let open = || -> io::Result<Self> {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            // Before anybody can connect: that takes a listening socket.
            fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
            listen(&fd, Backlog::new(BACKLOG)?)?;
            let fd = register(fd)?;
            Ok(Self { fd })
        };
        open().map_err(|source| Error::Bind {
            path: path.to_owned(),
            source,
        })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// [`Error::Accept`]: no descriptor is left, as a rule.
    pub async fn accept(&self) -> Result<Connection, Error> {
        loop {
            let mut ready = self.fd.readable().await.map_err(Error::Accept)?;
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            match accept4(self.fd.as_raw_fd(), flags) {
                Ok(fd) => {
                    let fd = register(own(fd)).map_err(Error::Accept)?;
                    return Ok(Connection { fd });
                }
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(errno) => return Err(Error::Accept(errno.into())),
            }
        }
    }
}

impl Connection {
    /// User id of the process that connected.
    ///
    /// # Errors
    /// [`Error::Connection`].
    pub fn peer(&self) -> Result<u32, Error> {
        let credentials = getsockopt(self.fd.get_ref(), sockopt::PeerCredentials);
        let credentials = credentials.map_err(failed("getsockopt"))?;
        Ok(credentials.uid())
    }

    /// Waits for a message of at most `buffer`'s length, and the descriptors that come
    /// with it; None when the other side has closed.
    ///
    /// # Errors
    /// [`Error::Connection`], with `EMSGSIZE` for a longer message.
    pub async fn receive(&self, buffer: &mut [u8]) -> Result<Option<(usize, Vec<OwnedFd>)>, Error> {
        loop {
            let mut ready = self
                .fd
                .readable()
                .await
                .map_err(|source| Error::Connection {
                    call: "recvmsg",
                    source,
                })?;
            match receive_now(self.fd.get_ref().as_fd(), buffer) {
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed("recvmsg")(errno)),
                Ok((0, _descriptors)) => return Ok(None),
                Ok(message) => return Ok(Some(message)),
            }
        }
    }

    /// Sends a message; there is always room for the first one.
    ///
    /// # Errors
    /// [`Error::Connection`]: the other side has gone, as a rule.
    pub fn send(&self, message: &[u8]) -> Result<(), Error> {
        self.send_with(message, &[])
    }

    /// Sends a message and descriptors, and does not wait for room.
    ///
    /// # Errors
    /// [`Error::Connection`], with `EAGAIN` where there is no room.
    pub fn send_with(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        send_now(self.fd.get_ref().as_fd(), message, fds).map_err(failed("sendmsg"))
    }
}

/// Whether somebody listens at a path. Nobody does where there is nothing, or what an agent left that was killed.
///
/// # Errors
/// [`Error::Connection`]: the path is too long for a socket, or may not be used.
pub fn is_listening(path: &Path) -> Result<bool, Error> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
    let fd = fd.map_err(failed("socket"))?;
    let address = UnixAddr::new(path).map_err(failed("bind"))?;
    match connect(fd.as_raw_fd(), &address) {
        // EAGAIN: there is somebody, and others wait.
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        // The last two: it is no such socket.
        Err(
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ECONNREFUSED
            | Errno::EPROTOTYPE
            | Errno::ENOTSOCK,
        ) => Ok(false),
        Err(errno) => Err(failed("connect")(errno)),
    }
}

/// Takes a descriptor that the kernel has just given to this process.
#[expect(unsafe_code, reason = "nix gives these as numbers")]
fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: accept4 and recvmsg return descriptors that are open and that
    // nobody else knows.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn failed(call: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::Connection {
        call,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd};

    use std::io::IoSlice;

    use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};

    use super::*;

    fn client(path: &Path) -> OwnedFd {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        connect(fd.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        fd
    }

    #[tokio::test]
    async fn somebody_listens_until_they_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(!is_listening(&path).unwrap());
        let listener = Listener::bind(&path).unwrap();
        assert!(is_listening(&path).unwrap());
        drop(listener);
        // What is left of it.
        assert!(path.exists());
        assert!(!is_listening(&path).unwrap());
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(!is_listening(&file).unwrap());
        assert!(!is_listening(&file.join("below")).unwrap());
        assert!(is_listening(&dir.path().join("x".repeat(200))).is_err());
    }

    #[tokio::test]
    async fn messages_and_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        fs::write(&path, "what an earlier agent left").unwrap();
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            MODE
        );
        let client = client(&path);
        let connection = listener.accept().await.unwrap();
        assert_eq!(connection.peer().unwrap(), nix::unistd::getuid().as_raw());
        let file = File::open("/proc/self/ns/net").unwrap();
        let fds = [file.as_fd().as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let parts = [IoSlice::new(b"hello")];
        let flags = MsgFlags::empty();
        sendmsg::<UnixAddr>(client.as_raw_fd(), &parts, &rights, flags, None).unwrap();
        let mut buffer = [0; 8];
        let (length, fds) = connection.receive(&mut buffer).await.unwrap().unwrap();
        assert_eq!((&buffer[..length], fds.len()), (&b"hello"[..], 1));
        send(client.as_raw_fd(), b"longer than that", flags).unwrap();
        assert!(connection.receive(&mut buffer).await.is_err());
        connection.send(b"answer").unwrap();
        let length = recv(client.as_raw_fd(), &mut buffer, flags).unwrap();
        assert_eq!(&buffer[..length], b"answer");
        drop(client);
        assert!(connection.receive(&mut buffer).await.unwrap().is_none());
        assert!(connection.send(b"answer").is_err());
    }
}
