//! Unix sockets of type SOCK_SEQPACKET, whose messages carry descriptors
//! ([unix(7)](https://man7.org/linux/man-pages/man7/unix.7.html)).
//!
//! tokio has only streams and datagrams. A connection to a [`Listener`] has one request and one reply; a pair lasts.

mod message;
mod pair;

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{getsockopt, sockopt::PeerCredentials},
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
        socket_with,
    },
};
use tokio::io::unix::AsyncFd;

use self::message::{receive_now, send_now};
pub use self::pair::{Plain, Received};
use crate::pods::readiness::register;

const BACKLOG: i32 = 128;
/// Owner only, because a client can order a hold of a pod's connections.
const MODE: u32 = 0o600;

/// A socket could not be created or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listening on {path:?}")]
    Bind { path: PathBuf, source: io::Error },
    #[error("accepting a connection")]
    Accept(#[source] io::Error),
    #[error("{call} on a connection")]
    Connection {
        call: &'static str,
        source: io::Error,
    },
}

#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
}

#[derive(Debug)]
pub struct Connection {
    fd: AsyncFd<OwnedFd>,
}

impl Listener {
    /// Listens at a path, and replaces an existing file, usually an earlier agent's socket.
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let open = || -> io::Result<Self> {
            let fd = socket()?;
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            bind(&fd, &SocketAddrUnix::new(path)?)?;
            // Set before `listen`, so that no client can connect earlier.
            fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
            listen(&fd, BACKLOG)?;
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
    /// [`Error::Accept`], usually if no descriptor is left.
    pub async fn accept(&self) -> Result<Connection, Error> {
        loop {
            let mut ready = self.fd.readable().await.map_err(Error::Accept)?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.fd, flags) {
                Ok(fd) => {
                    let fd = register(fd).map_err(Error::Accept)?;
                    return Ok(Connection { fd });
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(Error::Accept(errno.into())),
            }
        }
    }
}

impl Connection {
    /// User id of the connected process.
    pub fn peer(&self) -> Result<u32, Error> {
        // rustix has no type for the pid 0 of a process in another pid namespace.
        getsockopt(self.fd.get_ref(), PeerCredentials)
            .map(|credentials| credentials.uid())
            .map_err(failed("getsockopt"))
    }

    /// Whether the peer has closed the connection or exited. A message that it sent before can still be received.
    pub fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref().as_fd(), PollFlags::empty())];
        // An error can only be EINTR or ENOMEM.
        let is_ready = matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1));
        let hung_up = |events: PollFlags| events.contains(PollFlags::POLLHUP);
        is_ready && fds[0].revents().is_some_and(hung_up)
    }

    /// Waits for a message of at most `buffer`'s length, and its descriptors; None if the peer has closed the
    /// connection.
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
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("recvmsg")(errno)),
                Ok((0, _descriptors)) => return Ok(None),
                Ok(message) => return Ok(Some(message)),
            }
        }
    }

    /// Sends a message; the first one always fits.
    ///
    /// # Errors
    /// [`Error::Connection`], usually if the peer has closed.
    pub fn send(&self, message: &[u8]) -> Result<(), Error> {
        self.send_with(message, &[])
    }

    /// Sends a message and descriptors, without waiting for buffer space.
    ///
    /// # Errors
    /// [`Error::Connection`], with `EAGAIN` if the buffer is full.
    pub fn send_with(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        send_now(self.fd.get_ref().as_fd(), message, fds).map_err(failed("sendmsg"))
    }
}

/// Whether a process listens at a path. False without a file, and for the socket of a killed agent.
///
/// # Errors
/// [`Error::Connection`]: the path is too long for a socket, or not accessible.
pub fn is_listening(path: &Path) -> Result<bool, Error> {
    let fd = socket().map_err(failed("socket"))?;
    let address = SocketAddrUnix::new(path).map_err(failed("bind"))?;
    match connect(&fd, &address) {
        // EAGAIN means that a listener's backlog is full.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        // The last two mean that the file is not such a socket.
        Err(
            Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED | Errno::PROTOTYPE | Errno::NOTSOCK,
        ) => Ok(false),
        Err(errno) => Err(failed("connect")(errno)),
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn failed<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> Error {
    move |errno: E| Error::Connection {
        call,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::net::{RecvFlags, SendFlags, recv, send};

    use super::{message::send_now, *};

    fn client(path: &Path) -> OwnedFd {
        let fd = socket().unwrap();
        connect(&fd, &SocketAddrUnix::new(path).unwrap()).unwrap();
        fd
    }

    #[tokio::test]
    async fn listener_is_detected_until_it_closes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(!is_listening(&path).unwrap());
        let listener = Listener::bind(&path).unwrap();
        assert!(is_listening(&path).unwrap());
        drop(listener);
        // The file remains.
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
        assert_eq!(
            connection.peer().unwrap(),
            rustix::process::getuid().as_raw()
        );
        let file = File::open("/proc/self/ns/net").unwrap();
        assert!(!connection.is_closed());
        send_now(client.as_fd(), b"hello", &[file.as_fd()]).unwrap();
        assert!(!connection.is_closed());
        let mut buffer = [0; 8];
        let (length, fds) = connection.receive(&mut buffer).await.unwrap().unwrap();
        assert_eq!((&buffer[..length], fds.len()), (&b"hello"[..], 1));
        send(&client, b"longer than that", SendFlags::empty()).unwrap();
        assert!(connection.receive(&mut buffer).await.is_err());
        connection.send(b"answer").unwrap();
        let (length, _all) = recv(&client, &mut buffer, RecvFlags::empty()).unwrap();
        assert_eq!(&buffer[..length], b"answer");
        drop(client);
        assert!(connection.receive(&mut buffer).await.unwrap().is_none());
        assert!(connection.send(b"answer").is_err());
    }

    /// It closed while its connection waited in the backlog.
    #[tokio::test]
    async fn message_of_a_peer_that_has_closed_is_received() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = Listener::bind(&path).unwrap();
        let client = client(&path);
        send_now(client.as_fd(), b"hello", &[]).unwrap();
        drop(client);
        let connection = listener.accept().await.unwrap();
        assert!(connection.is_closed());
        let mut buffer = [0; 8];
        let message = connection.receive(&mut buffer).await.unwrap();
        assert_eq!(message.map(|(length, _fds)| length), Some(5));
        assert!(connection.is_closed());
    }
}
