//! Conversations with the kernel over
//! [netlink(7)](https://man7.org/linux/man-pages/man7/netlink.7.html).
//!
//! A [`Socket`] belongs to the network namespace that it was opened in
//! ([`Netns::netlink`](crate::net::netns::Netns::netlink)) and keeps that namespace
//! alive. It talks with the kernel only: it is connected to port 0, so that no
//! process can send to it.
//!
//! The attributes are read and written here ([`attribute`], [`message`]) and
//! not by netlink-packet-netfilter 0.4.0, which was tried: it knows half of the
//! expressions that are needed, and its decoder takes the first attribute of a
//! set element's key for granted, so that a short key is a panic
//! (`NlaBuffer::new` without a check in `set_element/attribute.rs`). What is
//! left to it is about as long as what is here.

pub mod attribute;
pub mod configure;
pub mod message;

use std::{
    cell::Cell,
    io::{self, IoSliceMut},
    ops::ControlFlow,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
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

use self::message::Message;
use crate::pods::readiness::KeepsItsDescriptor;

/// How long the kernel may take to answer, in milliseconds. It answers before
/// the request's system call returns; this bounds what is never expected.
const PATIENCE: u16 = 1000;

/// The longest datagram that the kernel makes for a dump
/// ([`netlink_dump`](https://github.com/torvalds/linux/blob/v6.18/net/netlink/af_netlink.c)).
const DATAGRAM: usize = 32 * 1024;

thread_local! {
    /// Room for a datagram, one for all sockets of a thread. A sidecar that an app waits for is asked about every
    /// millisecond, and memory of this size comes from the kernel each time and is cleared.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

sockopt_impl!(
    /// Errors come with a text.
    ExtendedAck,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_EXT_ACK,
    bool
);
sockopt_impl!(
    /// Errors come without a copy of the request.
    CapAck,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_CAP_ACK,
    bool
);
sockopt_impl!(
    /// Lost messages are not an error.
    NoEnobufs,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_NO_ENOBUFS,
    bool
);

sockopt_impl!(
    /// What the kernel counts of a socket
    /// ([`sk_get_meminfo`](https://github.com/torvalds/linux/blob/v6.18/net/core/sock.c)).
    MemoryInfo,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; MEMORY_INFO]
);

/// Length of [`MemoryInfo`], and where in it the messages are that found no room: `SK_MEMINFO_VARS`, `SK_MEMINFO_DROPS`.
const MEMORY_INFO: usize = 9;
const DROPS: usize = 8;

/// What to talk about with the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// nftables, nflog and nfqueue.
    Netfilter,
    /// Interfaces, addresses and routes.
    Route,
    /// Sockets of the namespace.
    SockDiag,
}

/// A non-blocking netlink socket that talks with the kernel.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Opens a socket in the namespace of the calling thread.
    ///
    /// # Errors
    /// What socket(2), setsockopt(2) and connect(2) say; `EPROTONOSUPPORT`
    /// where the kernel has no such protocol.
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
        Ok(Self { fd })
    }

    /// Makes room for `bytes` of what the kernel sends unasked, also beyond
    /// `net.core.rmem_max`, and has it drop silently what finds no room.
    ///
    /// # Errors
    /// What setsockopt(2) says; `EPERM` without `CAP_NET_ADMIN`.
    pub fn make_room(&self, bytes: usize) -> io::Result<()> {
        setsockopt(&self.fd, NoEnobufs, &true)?;
        setsockopt(&self.fd, sockopt::RcvBufForce, &bytes)?;
        Ok(())
    }

    /// How many messages found no room so far. Linux 4.12.
    ///
    /// # Errors
    /// What getsockopt(2) says.
    pub fn drops(&self) -> io::Result<u32> {
        Ok(getsockopt(&self.fd, MemoryInfo)?[DROPS])
    }

    /// Sends a request, or a batch of them, in one datagram.
    ///
    /// # Errors
    /// What send(2) says; what the kernel thinks of the request comes as a
    /// message.
    pub fn send(&self, request: &[u8]) -> io::Result<()> {
        loop {
            match send(self.fd.as_raw_fd(), request, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Receives one datagram and says how much of `buffer` it fills; None when
    /// there is none now. A datagram that does not come from the kernel is
    /// left out.
    ///
    /// # Errors
    /// What recvmsg(2) says, and `EMSGSIZE` for a datagram that is longer than
    /// `buffer`; the rest of it is lost.
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

    /// Sends a request and gives each message of the answer to `take`, until
    /// it breaks. What an earlier request has left comes first: the sequence
    /// numbers tell. The calling thread waits, as a rule not at all.
    ///
    /// # Errors
    /// What [`Socket::send`] and [`Socket::receive`] say, and
    /// [`io::ErrorKind::TimedOut`] after 1 s without the end of the answer.
    pub fn ask<T>(
        &self,
        request: &[u8],
        mut take: impl FnMut(Message<'_>) -> ControlFlow<T>,
    ) -> io::Result<T> {
        self.send(request)?;
        // An answer that asks on while it is taken finds none there and makes its own.
        let mut buffer = BUFFER.take();
        buffer.resize(DATAGRAM, 0);
        let answer = self.answer(&mut buffer, &mut take);
        BUFFER.set(buffer);
        answer
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
