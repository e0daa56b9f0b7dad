//! Requests to the kernel over [netlink(7)](https://man7.org/linux/man-pages/man7/netlink.7.html).
//!
//! A [`Socket`] belongs to the network namespace that it was opened in
//! ([`Netns::netlink`](crate::net::netns::Netns::netlink)) and keeps that namespace alive. It is connected to port 0,
//! the kernel, so that no process can send to it.
//!
//! [`message`] frames messages with netlink-packet-core. [`attribute`] decodes attributes without it, because values
//! from its `NlasIterator` cannot outlive their attribute, and here packets and texts are borrowed from the datagram.

pub mod attribute;
pub mod configure;
pub mod message;

use std::{
    io::{self, IoSliceMut},
    ops::ControlFlow,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::atomic::{AtomicU32, Ordering},
};

use nix::{
    errno::Errno,
    getsockopt_impl,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    setsockopt_impl, sockopt_impl,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect,
        getsockopt, recvmsg, send, setsockopt, socket, sockopt,
    },
};

use self::message::{Message, Verdict};
use crate::{pods::readiness::KeepsItsDescriptor, process::pool::Pool};

/// Timeout of a reply in milliseconds. The kernel replies before the request's system call returns, so the limit is
/// only a safeguard.
const PATIENCE: u16 = 1000;

/// The longest datagram of a dump
/// ([`netlink_dump`](https://github.com/torvalds/linux/blob/v6.18/net/netlink/af_netlink.c)).
const DATAGRAM: usize = 32 * 1024;

/// Receive buffers. While an app waits, the readiness of a sidecar is probed about every millisecond, and each allocation
/// of this size would map and clear memory.
static BUFFERS: Pool<Vec<u8>> = Pool::new(8);

sockopt_impl!(
    /// Errors include a text (ext-ack).
    ExtendedAck,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_EXT_ACK,
    bool
);
sockopt_impl!(
    /// Errors do not include the request.
    CapAck,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_CAP_ACK,
    bool
);
sockopt_impl!(
    /// Lost messages cause no error.
    NoEnobufs,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_NO_ENOBUFS,
    bool
);

sockopt_impl!(
    /// Joins a multicast group.
    AddMembership,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_ADD_MEMBERSHIP,
    u32
);

sockopt_impl!(
    /// Memory statistics of a socket
    /// ([`sk_get_meminfo`](https://github.com/torvalds/linux/blob/v6.18/net/core/sock.c)).
    MemoryInfo,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; MEMORY_INFO]
);

/// Length of [`MemoryInfo`] (`SK_MEMINFO_VARS`) and the index of dropped messages (`SK_MEMINFO_DROPS`).
const MEMORY_INFO: usize = 9;
const DROPS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Netfilter,
    Route,
    SockDiag,
}

/// A non-blocking netlink socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// The sequence number of the next request of [`Self::exchange`].
    sequence: AtomicU32,
}

impl Socket {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Those of socket(2), setsockopt(2) and connect(2); `EPROTONOSUPPORT` if the kernel lacks the protocol.
    pub(crate) fn open(protocol: Protocol) -> io::Result<Self> {
        let protocol = match protocol {
            Protocol::Netfilter => SockProtocol::NetlinkNetFilter,
            Protocol::Route => SockProtocol::NetlinkRoute,
            Protocol::SockDiag => SockProtocol::NetlinkSockDiag,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        setsockopt(&fd, ExtendedAck, &true)?;
        setsockopt(&fd, CapAck, &true)?;
        connect(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        let sequence = AtomicU32::new(1);
        Ok(Self { fd, sequence })
    }

    /// Sets the size of the receive buffer for unrequested messages, also beyond `net.core.rmem_max`. The kernel
    /// silently drops messages that do not fit.
    ///
    /// # Errors
    /// Those of setsockopt(2); `EPERM` without `CAP_NET_ADMIN`.
    pub fn make_room(&self, bytes: usize) -> io::Result<()> {
        setsockopt(&self.fd, NoEnobufs, &true)?;
        setsockopt(&self.fd, sockopt::RcvBufForce, &bytes)?;
        Ok(())
    }

    /// Receives the messages of a multicast group from now on. After the loss of a message, one receive fails with
    /// `ENOBUFS`.
    pub fn join(&self, group: u32) -> io::Result<()> {
        Ok(setsockopt(&self.fd, AddMembership, &group)?)
    }

    /// Number of messages that the kernel has dropped so far for lack of room. Linux 4.12.
    pub fn drops(&self) -> io::Result<u32> {
        Ok(getsockopt(&self.fd, MemoryInfo)?[DROPS])
    }

    /// Sends a request, or a batch of them, in one datagram.
    ///
    /// # Errors
    /// Those of send(2). The kernel's verdict on the request is a received message.
    pub fn send(&self, request: &[u8]) -> io::Result<()> {
        loop {
            match send(self.fd.as_raw_fd(), request, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Receives one datagram and returns its length in `buffer`; None if none is available. Skips datagrams from other
    /// processes.
    ///
    /// # Errors
    /// Those of recvmsg(2), and `EMSGSIZE` for a datagram longer than `buffer`, whose rest is lost.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let mut slices = [IoSliceMut::new(buffer)];
            let fd = self.fd.as_raw_fd();
            match recvmsg::<NetlinkAddr>(fd, &mut slices, None, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
                Ok(got) if got.address.is_none_or(|sender| sender.pid() != 0) => {}
                Ok(got) if got.flags.contains(MsgFlags::MSG_TRUNC) => {
                    return Err(Errno::EMSGSIZE.into());
                }
                Ok(got) => return Ok(Some(got.bytes)),
            }
        }
    }

    /// Sends a request and passes each message of the reply to `take`, until it breaks. Messages left over from an
    /// earlier request come first: compare the sequence number. Blocks the calling thread, usually for no time.
    ///
    /// # Errors
    /// Those of [`Socket::send`] and [`Socket::receive`], and [`io::ErrorKind::TimedOut`] if the reply is not complete
    /// after 1 s.
    pub fn request<T>(
        &self,
        request: &[u8],
        mut take: impl FnMut(Message<'_>) -> ControlFlow<T>,
    ) -> io::Result<T> {
        self.send(request)?;
        let mut buffer = BUFFERS.take().unwrap_or_else(|| vec![0; DATAGRAM]);
        let answer = self.answer(&mut buffer, &mut take);
        BUFFERS.put_back(buffer);
        answer
    }

    /// Sends a request with this body, and passes each message of its reply to `take`, until it breaks.
    ///
    /// # Errors
    /// Those of [`Socket::request`].
    pub(crate) fn exchange<T>(
        &self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut take: impl FnMut(Message<'_>) -> ControlFlow<T>,
    ) -> io::Result<T> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let mut request = Vec::new();
        message::put(&mut request, kind, flags, sequence, |out| {
            out.extend_from_slice(body);
        });
        self.request(&request, |message| match message.sequence == sequence {
            true => take(message),
            false => ControlFlow::Continue(()),
        })
    }

    /// Requests a list, and passes each object to `take`. Returns the flags of all messages together.
    ///
    /// # Errors
    /// Those of [`Socket::request`], and the errno with which the kernel rejects the request.
    pub(crate) fn dump(
        &self,
        kind: u16,
        body: &[u8],
        mut take: impl FnMut(Message<'_>),
    ) -> io::Result<u16> {
        let mut flags = 0;
        let verdict = self.exchange(kind, message::DUMP, body, |message| {
            flags |= message.flags;
            match message.verdict() {
                Some(verdict) => ControlFlow::Break(verdict),
                None => {
                    take(message);
                    ControlFlow::Continue(())
                }
            }
        })?;
        match verdict {
            Verdict::Done => Ok(flags),
            Verdict::Rejected { errno, .. } => Err(errno.into()),
        }
    }

    fn answer<T>(
        &self,
        buffer: &mut [u8],
        take: &mut impl FnMut(Message<'_>) -> ControlFlow<T>,
    ) -> io::Result<T> {
        loop {
            let Some(length) = self.receive(buffer)? else {
                self.wait()?;
                continue;
            };
            for message in message::messages(&buffer[..length]) {
                if let ControlFlow::Break(answer) = take(message) {
                    return Ok(answer);
                }
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(PATIENCE)) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

// SAFETY: the descriptor is the same until the socket is dropped.
#[expect(unsafe_code, reason = "see the trait")]
unsafe impl KeepsItsDescriptor for Socket {}
