//! Configures nflog and nfqueue: one request, one verdict
//! ([nfnetlink](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nfnetlink.c)).

use std::{io, ops::ControlFlow};

use super::{
    Socket,
    message::{self, Verdict},
};

/// The kernel rejected a setting.
#[derive(Debug, thiserror::Error)]
#[error("kernel rejected the setting{detail}",
        detail = .detail.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct Rejected {
    /// Cause: `EPERM` without `CAP_NET_ADMIN`; `EPERM`, `EBUSY` or `EEXIST` if another socket has the group or queue.
    pub source: io::Error,
    /// The kernel's text (ext-ack), if it sent one.
    detail: Option<String>,
}

impl Rejected {
    /// Whether another socket may have the group or queue.
    pub fn may_be_in_use(&self) -> bool {
        matches!(
            self.source.raw_os_error(),
            Some(libc::EPERM | libc::EBUSY | libc::EEXIST)
        )
    }
}

/// A message of a netfilter subsystem about one group or queue.
pub(crate) fn message(
    subsystem: u8,
    kind: u8,
    resource: u16,
    flags: u16,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = u16::from_be_bytes([subsystem, kind]);
    message::put(&mut bytes, kind, flags, SEQUENCE, |body| {
        // `struct nfgenmsg`: any family, version 0.
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&resource.to_be_bytes());
        fill(body);
    });
    bytes
}

/// Requests are sent one at a time. Unrequested messages have the number 0.
const SEQUENCE: u32 = 1;

/// Sends a message made with [`message::ACK`] and waits for the verdict.
pub(crate) fn configure(socket: &Socket, request: &[u8]) -> Result<(), Rejected> {
    let verdict = socket
        .request(request, |message| match message.verdict() {
            Some(verdict) if message.sequence == SEQUENCE => ControlFlow::Break(verdict),
            _ => ControlFlow::Continue(()),
        })
        .map_err(|source| Rejected {
            source,
            detail: None,
        })?;
    match verdict {
        Verdict::Done => Ok(()),
        Verdict::Rejected { errno, detail } => Err(Rejected {
            source: errno.into(),
            detail,
        }),
    }
}
