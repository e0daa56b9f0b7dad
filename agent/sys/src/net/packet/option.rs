//! Options of a packet socket.

use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    getsockopt_impl, setsockopt_impl, sockopt_impl,
    sys::socket::{getsockopt, setsockopt},
};
use usher_core::node::packet::Instruction;

use super::Error;

const THIRD: libc::c_int = 2;
const RING: libc::c_int = 5;
const STATISTICS: libc::c_int = 6;
const VERSION: libc::c_int = 10;

/// All protocols, in network byte order.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

#[derive(Debug, Clone, Copy)]
pub(super) struct RingRequest {
    pub(super) block_size: u32,
    pub(super) blocks: u32,
    pub(super) frame_size: u32,
    /// Timeout in milliseconds after which the kernel hands over a block that is not full.
    pub(super) handed_over_after: u32,
}

sockopt_impl!(Version, SetOnly, libc::SOL_PACKET, VERSION, libc::c_int);
sockopt_impl!(Room, SetOnly, libc::SOL_PACKET, RING, [u32; 7]);
sockopt_impl!(
    /// Request for the counters since the previous request.
    Counted,
    GetOnly,
    libc::SOL_PACKET,
    STATISTICS,
    [u32; 3]
);
sockopt_impl!(
    Attach,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_ATTACH_FILTER,
    libc::sock_fprog
);

pub(super) fn version(socket: &OwnedFd) -> Result<(), Error> {
    setsockopt(socket, Version, &THIRD).map_err(set("the ring's version"))
}

pub(super) fn room(socket: &OwnedFd, request: &RingRequest) -> Result<(), Error> {
    let frames = request.block_size / request.frame_size * request.blocks;
    // Blocks have no private area, and no features are requested.
    let words = [
        request.block_size,
        request.blocks,
        request.frame_size,
        frames,
        request.handed_over_after,
        0,
        0,
    ];
    setsockopt(socket, Room, &words).map_err(set("the ring's size"))
}

/// Replaces the filter at once.
pub(super) fn attach(socket: &OwnedFd, program: &[Instruction]) -> Result<(), Error> {
    let mut filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|instruction| libc::sock_filter {
            code: instruction.code,
            jt: instruction.jump_true,
            jf: instruction.jump_false,
            k: instruction.operand,
        })
        .collect();
    // The kernel copies the program before the call returns.
    let program = libc::sock_fprog {
        len: filter.len().try_into().unwrap_or(u16::MAX),
        filter: filter.as_mut_ptr(),
    };
    setsockopt(socket, Attach, &program).map_err(set("the filter"))
}

/// `struct tpacket_stats_v3`: the numbers of accepted and dropped packets.
pub(super) fn statistics(socket: &OwnedFd) -> io::Result<(u32, u32)> {
    let [accepted, dropped, _freezes] = getsockopt(socket, Counted)?;
    Ok((accepted, dropped))
}

/// Binds to all interfaces and protocols.
#[expect(unsafe_code, reason = "nix has no way to make such an address")]
pub(super) fn bind(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: zeros are a value of this structure of numbers.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ALL_PROTOCOLS;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the descriptor is open, and the address is valid and has the given length.
    if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn set(what: &'static str) -> impl Fn(nix::errno::Errno) -> Error {
    move |errno| Error::Set {
        what,
        source: errno.into(),
    }
}
