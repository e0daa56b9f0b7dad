//! An agent that handles a request as a test requires.

use std::{
    fs,
    io::{IoSliceMut, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::{
            fs::MetadataExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::Path,
    thread::{self, JoinHandle},
};

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, bind,
        connect, listen, recvmsg, socket,
    },
    unistd::close,
};

/// A received request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) bytes: Vec<u8>,
    /// Device and inode number of each descriptor.
    pub(crate) descriptors: Vec<(u64, u64)>,
}

/// The agent's behaviour after it has read a request.
pub(crate) enum Then {
    Reply(Vec<u8>),
    Close,
    /// Replies after the plugin has closed the connection.
    ReplyLate,
}

/// Serves one request on a separate thread.
pub(crate) fn serve(path: &Path, then: Then) -> JoinHandle<Request> {
    let listener = UnixListener::from(listening(path, 16));
    thread::spawn(move || {
        let (mut plugin, _) = listener.accept().unwrap();
        let request = read(&plugin);
        match then {
            Then::Reply(bytes) => plugin.write_all(&bytes).unwrap(),
            Then::Close => {}
            Then::ReplyLate => {
                assert_eq!(plugin.read(&mut [0]).unwrap(), 0);
                assert!(plugin.write_all(&held()).is_err());
            }
        }
        request
    })
}

/// A listener that never accepts and has a full backlog. Also returns the queued connections.
pub(crate) fn stopped(path: &Path) -> Vec<OwnedFd> {
    let mut kept = vec![listening(path, 0)];
    let address = UnixAddr::new(path).unwrap();
    loop {
        let client = seqpacket(SockFlag::SOCK_NONBLOCK);
        match connect(client.as_raw_fd(), &address) {
            Ok(()) => kept.push(client),
            Err(Errno::EAGAIN) => return kept,
            Err(errno) => panic!("{errno}"),
        }
    }
}

pub(crate) fn held() -> Vec<u8> {
    b"{\"version\":1,\"outcome\":\"held\"}".to_vec()
}

fn listening(path: &Path, queue: i32) -> OwnedFd {
    let socket = seqpacket(SockFlag::empty());
    bind(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    listen(&socket, Backlog::new(queue).unwrap()).unwrap();
    socket
}

fn seqpacket(flags: SockFlag) -> OwnedFd {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap()
}

fn read(plugin: &UnixStream) -> Request {
    let mut bytes = vec![0; 64 * 1024];
    let mut control = nix::cmsg_space!([RawFd; 4]);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message =
        recvmsg::<UnixAddr>(plugin.as_raw_fd(), &mut parts, Some(&mut control), flags).unwrap();
    let mut descriptors = Vec::new();
    for part in message.cmsgs().unwrap() {
        let ControlMessageOwned::ScmRights(fds) = part else {
            panic!("{part:?}");
        };
        for fd in fds {
            let metadata = fs::metadata(format!("/proc/self/fd/{fd}")).unwrap();
            descriptors.push((metadata.dev(), metadata.ino()));
            close(fd).unwrap();
        }
    }
    let length = message.bytes;
    bytes.truncate(length);
    Request { bytes, descriptors }
}
