//! Interfaces of the namespace that a socket is of
//! ([netdevice(7)](https://man7.org/linux/man-pages/man7/netdevice.7.html)): a question through a socket is about the
//! socket's namespace, whoever asks.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// The hardware type of the interface of this name.
pub(super) fn hardware(socket: &OwnedFd, name: &str) -> io::Result<u16> {
    let mut request = request();
    let room = request.ifr_name.len() - 1;
    for (place, byte) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    ask(socket, libc::SIOCGIFHWADDR, &mut request)?;
    // SAFETY: the kernel has written this member, and every value is one.
    #[expect(unsafe_code, reason = "a union")]
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    Ok(address.sa_family)
}

/// The name of the interface of this number.
pub(super) fn name(socket: &OwnedFd, index: u32) -> io::Result<String> {
    let mut request = request();
    request.ifr_ifru.ifru_ifindex = index as libc::c_int;
    ask(socket, libc::SIOCGIFNAME, &mut request)?;
    let bytes = request.ifr_name.map(|byte| byte as u8);
    let name = CStr::from_bytes_until_nul(&bytes).map_err(io::Error::other)?;
    Ok(name.to_string_lossy().into_owned())
}

#[expect(
    unsafe_code,
    reason = "a structure with a union has no other empty value"
)]
fn request() -> libc::ifreq {
    // SAFETY: it is a structure of numbers and a null pointer, for which zeros are values.
    unsafe { std::mem::zeroed() }
}

#[expect(unsafe_code, reason = "an ioctl")]
fn ask(socket: &OwnedFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the descriptor is open, and both requests read and write one `struct ifreq`. The type of `what` differs
    // between C libraries.
    if unsafe { libc::ioctl(socket.as_raw_fd(), what as _, request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
