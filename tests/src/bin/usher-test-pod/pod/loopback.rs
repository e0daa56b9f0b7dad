//! Brings `lo` up in this process's network namespace.
//!
//! One rtnetlink message, `RTM_NEWLINK` for interface 1 with `IFF_UP`
//! ([rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html)),
//! implemented here because an async netlink client in each of hundreds of
//! shims would be most of their memory. `lo` is interface 1 in every network
//! namespace.

use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

const RTM_NEWLINK: u16 = 16;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const IFF_UP: u32 = 1;
const LENGTH: u32 = 32;

/// Sets the flag and waits for the kernel's acknowledgement.
pub(crate) fn up() -> Result<(), String> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
    .map_err(|error| format!("socket(NETLINK_ROUTE): {error}"))?;
    let mut message = Vec::with_capacity(LENGTH as usize);
    // struct nlmsghdr: length, type, flags, sequence, port
    message.extend(LENGTH.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]);
    // struct ifinfomsg: family, pad, type, index, flags, change mask
    message.extend([0; 4]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &message, &kernel, MsgFlags::empty())
        .map_err(|error| format!("sendto(RTM_NEWLINK): {error}"))?;
    let mut reply = [0; 256];
    let length = recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty())
        .map_err(|error| format!("recv(RTM_NEWLINK): {error}"))?;
    let kind = reply.get(4..6).filter(|_| length >= 20);
    let code = reply.get(16..20).filter(|_| length >= 20);
    if kind == Some(&NLMSG_ERROR.to_ne_bytes()) && code == Some(&[0; 4]) {
        return Ok(());
    }
    Err(format!("lo did not come up: {:?}", reply.get(..length)))
}
