//! One message with descriptors, sent and received without waiting.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    cmsg_space,
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

/// Most descriptors of one message; the kernel allows 253
/// ([SCM_MAX_FD](https://github.com/torvalds/linux/blob/v6.12/include/net/scm.h)).
const DESCRIPTORS: usize = 253;

/// Receives a message of at most `buffer`'s length; length 0 if the peer has closed.
///
/// # Errors
/// `EAGAIN` if there is no message; `EMSGSIZE` for a longer one; `ENOBUFS` if its descriptors exceed this process's
/// limit. In the last two cases the message is lost.
pub(super) fn receive_now(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
    // Closes the descriptors that are not taken out.
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = recvmsg(fd, &mut parts, &mut control, flags)?;
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE);
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::NOBUFS);
    }
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = part {
            descriptors.extend(all);
        }
    }
    Ok((message.bytes, descriptors))
}

/// Sends a message completely or not at all.
///
/// # Errors
/// `EAGAIN` if the buffer is full; `EPIPE` if the peer has closed.
pub(super) fn send_now(
    fd: BorrowedFd<'_>,
    message: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(fd, &[IoSlice::new(message)], &mut control, flags).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::{fd::AsFd, unix::net::UnixStream},
    };

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};

    use super::*;

    /// The credentials of the sender take the space of some descriptors.
    #[test]
    fn descriptors_of_a_truncated_message_are_closed() {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        setsockopt(&ours, sockopt::PassCred, &true).unwrap();
        let (mut reader, writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        let fds = vec![writer.as_fd(); DESCRIPTORS];
        send_now(theirs.as_fd(), b"x", &fds).unwrap();
        drop(writer);
        let received = receive_now(ours.as_fd(), &mut [0; 8]);
        assert_eq!(received.unwrap_err(), Errno::NOBUFS);
        // No copy of the writer is open.
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
    }
}
