//! One request with a namespace (SCM_RIGHTS) to the agent, and one reply, on a Unix socket of type SOCK_SEQPACKET
//! ([unix(7)](https://man7.org/linux/man-pages/man7/unix.7.html)).
//!
//! The kernel bounds every wait. SO_SNDTIMEO also covers a connect to a listener with a full backlog, such as a stopped
//! agent.

use std::{
    io::IoSlice,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        socket::{
            AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv,
            sendmsg, setsockopt, socket, sockopt,
        },
        time::TimeVal,
    },
};
use usher_core::cni::protocol::{InvalidMessage, LONGEST_MESSAGE, Reply};

/// The kernel interprets a timeout of zero as none.
const SHORTEST: Duration = Duration::from_micros(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{call} on {path}")]
    Call {
        call: &'static str,
        path: PathBuf,
        source: Errno,
    },
    #[error("{call} on {path} took longer than {timeout:?}")]
    Timeout {
        call: &'static str,
        path: PathBuf,
        timeout: Duration,
    },
    #[error("the agent closed {path} without a reply")]
    Closed { path: PathBuf },
    #[error("decoding the agent's reply")]
    Reply(#[from] InvalidMessage),
}

/// Sends `message` and waits for the reply, at most `timeout` in total.
pub(crate) fn request(
    path: &Path,
    message: &[u8],
    netns: &impl AsFd,
    timeout: Duration,
) -> Result<Reply, Error> {
    let exchange = Exchange {
        path,
        timeout,
        until: Instant::now() + timeout,
    };
    exchange.run(message, netns)
}

struct Exchange<'a> {
    path: &'a Path,
    timeout: Duration,
    until: Instant,
}

impl Exchange<'_> {
    fn run(&self, message: &[u8], netns: &impl AsFd) -> Result<Reply, Error> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
        let socket = socket.map_err(|errno| self.failed("socket", errno))?;
        let address = UnixAddr::new(self.path).map_err(|errno| self.failed("address", errno))?;
        self.with_timeout("connect", &socket, || connect(socket.as_raw_fd(), &address))?;
        let parts = [IoSlice::new(message)];
        let fds = [netns.as_fd().as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        self.with_timeout("sendmsg", &socket, || {
            let flags = MsgFlags::MSG_NOSIGNAL;
            sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, &rights, flags, None)
        })?;
        let mut reply = [0; LONGEST_MESSAGE];
        let length = self.receive(&socket, &mut reply)?;
        if length == 0 {
            return Err(Error::Closed {
                path: self.path.to_owned(),
            });
        }
        let reply = reply
            .get(..length)
            .ok_or(InvalidMessage::TooLong { length })?;
        Ok(Reply::decode(reply)?)
    }

    /// Waits for the reply, and returns its length.
    fn receive(&self, socket: &OwnedFd, reply: &mut [u8]) -> Result<usize, Error> {
        let mut receive = |flags| {
            // With MSG_TRUNC the kernel returns the length of the whole message, even if it does not fit.
            recv(socket.as_raw_fd(), reply, MsgFlags::MSG_TRUNC | flags)
        };
        match self.with_timeout("recv", socket, || receive(MsgFlags::empty())) {
            // The reply may have arrived while this process had no processor for the whole time.
            Err(late @ Error::Timeout { .. }) => {
                receive(MsgFlags::MSG_DONTWAIT).map_err(|_no_reply| late)
            }
            received => received,
        }
    }

    /// Makes a blocking call within the remaining time.
    fn with_timeout<T>(
        &self,
        name: &'static str,
        socket: &OwnedFd,
        mut call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Error> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let is_late = || Error::Timeout {
                call: name,
                path: self.path.to_owned(),
                timeout: self.timeout,
            };
            if left.is_zero() {
                return Err(is_late());
            }
            let left = left.max(SHORTEST);
            let bound = TimeVal::new(left.as_secs().cast_signed(), left.subsec_micros().into());
            setsockopt(socket, sockopt::SendTimeout, &bound)
                .and_then(|()| setsockopt(socket, sockopt::ReceiveTimeout, &bound))
                .map_err(|errno| self.failed("setsockopt", errno))?;
            match call() {
                Ok(done) => return Ok(done),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Err(is_late()),
                Err(errno) => return Err(self.failed(name, errno)),
            }
        }
    }

    fn failed(&self, call: &'static str, source: Errno) -> Error {
        Error::Call {
            call,
            path: self.path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{send, socketpair};

    use super::*;

    #[test]
    fn reply_that_waits_is_received_after_the_timeout() {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (own, agent) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let exchange = Exchange {
            path: Path::new("agent.sock"),
            timeout: Duration::from_millis(500),
            until: Instant::now(),
        };
        let mut reply = [0; LONGEST_MESSAGE];
        let late = exchange.receive(&own, &mut reply);
        assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
        send(agent.as_raw_fd(), b"reply", MsgFlags::empty()).unwrap();
        assert_eq!(exchange.receive(&own, &mut reply).unwrap(), 5);
        assert_eq!(&reply[..5], b"reply");
    }
}
