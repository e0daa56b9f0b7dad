//! One message with descriptors, sent and received without waiting.

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use nix::{
    cmsg_space,
    errno::Errno,
    sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg},
};

use super::own;

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
    let mut space = cmsg_space!([RawFd; DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<UnixAddr>(fd.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(all) = control {
            descriptors.extend(all.into_iter().map(own));
        }
    }
    if message.flags.contains(MsgFlags::MSG_TRUNC) {
        return Err(Errno::EMSGSIZE);
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
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
    let parts = [IoSlice::new(message)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(fd.as_raw_fd(), &parts, rights, flags, None).map(drop)
}
