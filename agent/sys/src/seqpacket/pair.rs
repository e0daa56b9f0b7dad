//! Connected pairs: one end for this process's event loop, one for a process that polls without tokio.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use rustix::io::Errno;
use tokio::io::Interest;

use super::{
    Connection, Error, failed,
    message::{receive_now, send_now},
};
use crate::pods::readiness::{register, register_for};

/// Send buffer of each end, of which only the used part takes memory. Orders about all containers of a node may come at
/// once, and only some 270 small messages fit in the default.
const SEND_BUFFER: usize = 2 << 20;

impl Connection {
    /// Creates a pair: an end for this process, which requires a tokio runtime on the thread, and an end for another
    /// process.
    pub fn pair() -> Result<(Self, Plain), Error> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let ends = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
        let (own, other) = ends.map_err(failed("socketpair"))?;
        for end in [&own, &other] {
            // Without CAP_NET_ADMIN the kernel applies net.core.wmem_max.
            setsockopt(end, sockopt::SndBufForce, &SEND_BUFFER)
                .or_else(|_errno| setsockopt(end, sockopt::SndBuf, &SEND_BUFFER))
                .map_err(failed("setsockopt"))?;
        }
        Ok((Self::adopt(own)?, Plain(other)))
    }

    /// Adopts an end that another process passed. Requires a tokio runtime on the thread.
    pub fn adopt(end: OwnedFd) -> Result<Self, Error> {
        let fd = register(end).map_err(registering)?;
        Ok(Self { fd })
    }

    /// Sends a message and descriptors, and waits for buffer space. Dropping the future sends all or nothing.
    ///
    /// # Errors
    /// [`Error::Connection`], usually if the peer has closed.
    pub async fn send_when_ready(
        &self,
        message: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        loop {
            match send_now(self.fd.get_ref().as_fd(), message, fds) {
                Err(Errno::AGAIN) => {}
                sent => return sent.map_err(failed("sendmsg")),
            }
            // Registered only now: otherwise the peer wakes this process with each message that it receives.
            let writable = self.fd.get_ref().try_clone();
            let writable = writable.and_then(|end| register_for(end, Interest::WRITABLE));
            let writable = writable.map_err(registering)?;
            drop(writable.writable().await.map_err(registering)?);
        }
    }
}

fn registering(source: io::Error) -> Error {
    let call = "epoll_ctl";
    Error::Connection { call, source }
}

/// An end that never waits and needs no event loop.
#[derive(Debug)]
pub struct Plain(OwnedFd);

#[derive(Debug)]
pub enum Received {
    /// A message of this length, and its descriptors.
    Message(usize, Vec<OwnedFd>),
    Nothing,
    /// The peer has closed its end or exited.
    Closed,
}

impl Plain {
    /// Receives a message of at most `buffer`'s length, if there is one.
    ///
    /// # Errors
    /// [`Error::Connection`]: `EMSGSIZE` for a longer message, `ENOBUFS` if its descriptors exceed this process's
    /// limit. The next message can still be received.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Error> {
        loop {
            return match receive_now(self.as_fd(), buffer) {
                Ok((0, _descriptors)) => Ok(Received::Closed),
                Ok((length, fds)) => Ok(Received::Message(length, fds)),
                Err(Errno::AGAIN) => Ok(Received::Nothing),
                Err(Errno::CONNRESET) => Ok(Received::Closed),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(failed("recvmsg")(errno)),
            };
        }
    }

    /// Sends a message and descriptors.
    ///
    /// # Errors
    /// [`Error::Connection`], with `EAGAIN` if the buffer is full.
    pub fn send(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        send_now(self.as_fd(), message, fds).map_err(failed("sendmsg"))
    }
}

/// An end that another process passed as standard input.
impl From<OwnedFd> for Plain {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

/// Converts to a descriptor for a child process.
impl From<Plain> for OwnedFd {
    fn from(end: Plain) -> Self {
        end.0
    }
}

impl AsFd for Plain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Seek, Write},
    };

    use super::*;

    fn received(end: &Plain, buffer: &mut [u8]) -> (Vec<u8>, Vec<OwnedFd>) {
        match end.receive(buffer).unwrap() {
            Received::Message(length, fds) => (buffer[..length].to_vec(), fds),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn descriptors_both_ways() {
        let (here, there) = Connection::pair().unwrap();
        let mut buffer = [0; 16];
        assert!(matches!(there.receive(&mut buffer), Ok(Received::Nothing)));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        file.rewind().unwrap();
        here.send_with(b"one", &[file.as_fd(), file.as_fd()])
            .unwrap();
        here.send(b"two").unwrap();
        let (text, mut fds) = received(&there, &mut buffer);
        assert_eq!((&text[..], fds.len()), (&b"one"[..], 2));
        let mut content = String::new();
        let mut same = File::from(fds.remove(0));
        same.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        assert_eq!(received(&there, &mut buffer).0, b"two");
        there.send(b"answer", &[file.as_fd()]).unwrap();
        let (length, fds) = here.receive(&mut buffer).await.unwrap().unwrap();
        assert_eq!((&buffer[..length], fds.len()), (&b"answer"[..], 1));
        drop(here);
        assert!(matches!(there.receive(&mut buffer), Ok(Received::Closed)));
        assert!(there.send(b"more", &[]).is_err());
    }

    /// One order for each container of a large node, while the peer is busy. Needs CAP_NET_ADMIN.
    #[tokio::test(flavor = "current_thread")]
    async fn messages_for_all_containers_fit() {
        let (here, there) = Connection::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        for number in 0..600 {
            let sent = here.send_with(&[7; 80], &[file.as_fd()]);
            assert!(sent.is_ok(), "{number}: {sent:?}");
            let sent = there.send(&[7; 80], &[file.as_fd()]);
            assert!(sent.is_ok(), "{number}: {sent:?}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn message_waits_for_buffer_space() {
        let (here, there) = Connection::pair().unwrap();
        while here.send(&[7; 4096]).is_ok() {}
        let mut sent = std::pin::pin!(here.send_when_ready(b"last", &[]));
        let waits = std::future::poll_fn(|context| {
            std::task::Poll::Ready(sent.as_mut().poll(context).is_pending())
        });
        assert!(waits.await);
        let mut buffer = [0; 4096];
        let read = async {
            while received(&there, &mut buffer).0 != b"last" {
                tokio::task::yield_now().await;
            }
        };
        let (sent, ()) = tokio::join!(sent, read);
        sent.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn full_buffer_and_long_messages() {
        let (here, there) = Connection::pair().unwrap();
        let full = std::iter::repeat_with(|| here.send(&[7; 4096]))
            .find_map(Result::err)
            .unwrap();
        let Error::Connection { source, .. } = full else {
            panic!("{full:?}")
        };
        assert_eq!(source.kind(), io::ErrorKind::WouldBlock);
        assert!(there.receive(&mut [0; 16]).is_err());
        assert_eq!(received(&there, &mut [0; 4096]).0.len(), 4096);
        // Messages that were sent before the close arrive first.
        let (here, there) = Connection::pair().unwrap();
        here.send(b"last").unwrap();
        drop(here);
        assert_eq!(received(&there, &mut [0; 16]).0, b"last");
        assert!(matches!(there.receive(&mut [0; 16]), Ok(Received::Closed)));
    }
}
