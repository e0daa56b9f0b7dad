//! One request about objects of the namespace, and the kernel's reply to it.

use std::{io, ops::ControlFlow};

use nix::errno::Errno;

use super::{NftError, Operation, batch::discard_unread};
use crate::net::netlink::{
    Socket,
    message::{self, Message, Verdict},
};

pub(super) const ANY_FAMILY: u8 = 0;

/// A request for objects of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    pub(super) operation: Operation,
    pub(super) object: &'static str,
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) family: u8,
}

impl Query {
    pub(super) fn dump(operation: Operation, object: &'static str, kind: u16) -> Self {
        Self {
            operation,
            object,
            kind,
            flags: message::DUMP,
            family: ANY_FAMILY,
        }
    }

    /// Sends the request and passes the objects of the reply to `take`, until it fails. `EINTR` if objects changed
    /// during the dump.
    pub(super) fn send(
        self,
        socket: &Socket,
        fill: impl FnOnce(&mut Vec<u8>),
        mut take: impl FnMut(Message<'_>) -> io::Result<()>,
    ) -> Result<(), NftError> {
        let mut bytes = Vec::new();
        message::put(&mut bytes, self.kind, self.flags, 1, |body| {
            body.extend_from_slice(&[self.family, 0, 0, 0]);
            fill(body);
        });
        let fail = |source, detail| NftError {
            operation: self.operation,
            object: self.object,
            detail,
            source,
        };
        discard_unread(socket).map_err(|source| fail(source, None))?;
        let mut torn = false;
        let end = socket.request(&bytes, |message| {
            torn |= message.flags & message::INTERRUPTED != 0;
            match message.verdict() {
                Some(verdict) => ControlFlow::Break(Ok(verdict)),
                None => match take(message) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(Err(error)),
                },
            }
        });
        match end.flatten().map_err(|source| fail(source, None))? {
            Verdict::Done if torn => Err(fail(Errno::EINTR.into(), None)),
            Verdict::Done => Ok(()),
            Verdict::Rejected { errno, detail } => Err(fail(errno.into(), detail)),
        }
    }
}
