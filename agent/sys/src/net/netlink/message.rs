//! Netlink messages: the header of every request and reply, and the kernel's verdict on a request
//! ([`include/uapi/linux/netlink.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/netlink.h)).
//!
//! netlink-packet-core encodes and decodes the header. The verdict is decoded here, because the crate (0.9) reads the
//! kernel's text (ext-ack) only from the end of a dump, and not from an error.

use netlink_packet_core::{
    NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
};
use nix::errno::Errno;

use super::attribute;
use crate::net::u32_at;

pub use netlink_packet_core::NLM_F_ACK as ACK;
/// Adds the object after the existing ones.
pub use netlink_packet_core::NLM_F_APPEND as APPEND;
/// Creates the object if it does not exist.
pub use netlink_packet_core::NLM_F_CREATE as CREATE;
pub use netlink_packet_core::NLM_F_DUMP as DUMP;
/// Flag of a reply: objects changed during the dump, so some may be missing or listed twice.
pub use netlink_packet_core::NLM_F_DUMP_INTR as INTERRUPTED;

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
const ALIGNMENT: usize = 4;
/// Attribute of a verdict: the kernel's text (`NLMSGERR_ATTR_MSG`).
const TEXT: u16 = 1;

/// Appends a message with the payload of `fill`.
pub fn put(
    bytes: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    sequence: u32,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let start = bytes.len();
    bytes.resize(start + HEADER, 0);
    fill(bytes);
    let length = u32::try_from(bytes.len() - start).expect("a message is shorter than 4 GiB");
    let mut header = NetlinkBuffer::new(&mut bytes[start..]);
    header.set_length(length);
    header.set_message_type(kind);
    header.set_flags(flags | NLM_F_REQUEST);
    header.set_sequence_number(sequence);
    // The port number stays 0: the kernel fills in the sender.
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
}

/// Sets further flags of the message at the start of `bytes`.
pub fn add_flags(bytes: &mut [u8], more: u16) {
    if let Ok(mut header) = NetlinkBuffer::new_checked(bytes) {
        header.set_flags(header.flags() | more);
    }
}

/// A received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The message type; its meaning depends on the protocol.
    pub kind: u16,
    pub flags: u16,
    /// The sequence number of the request.
    pub sequence: u32,
    pub body: &'a [u8],
}

/// The verdict of the kernel on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The request succeeded, or the dump is complete.
    Done,
    Rejected {
        errno: Errno,
        /// The kernel's text (ext-ack), if it sent one.
        detail: Option<String>,
    },
}

impl Message<'_> {
    /// The verdict, if the message is one.
    pub fn verdict(&self) -> Option<Verdict> {
        if self.kind != NLMSG_ERROR && self.kind != NLMSG_DONE {
            return None;
        }
        let (number, rest) = self.body.split_first_chunk::<4>()?;
        let number = i32::from_ne_bytes(*number);
        if number == 0 {
            return Some(Verdict::Done);
        }
        Some(Verdict::Rejected {
            errno: Errno::from_raw(number.saturating_neg()),
            detail: self.detail(rest),
        })
    }

    /// The text, which follows the error number and, in an error, the request's header.
    fn detail(&self, rest: &[u8]) -> Option<String> {
        if self.flags & NLM_F_ACK_TLVS == 0 {
            return None;
        }
        let skipped = match self.kind {
            NLMSG_DONE => 0,
            _ if self.flags & NLM_F_CAPPED != 0 => HEADER,
            _ => declared_length(rest)?.next_multiple_of(ALIGNMENT),
        };
        let text = attribute::find(rest.get(skipped..)?, TEXT)?;
        text.text().map(str::to_owned)
    }
}

/// The messages of a datagram before the first truncated one.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let header = NetlinkBuffer::new_checked(rest).ok()?;
        let length = usize::try_from(header.length()).ok()?;
        rest = rest
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
        Some(Message {
            kind: header.message_type(),
            flags: header.flags(),
            sequence: header.sequence_number(),
            body: header.payload(),
        })
    })
}

/// The length in a message's header; the message may be truncated.
fn declared_length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u32_at(bytes, 0)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_messages_are_read() {
        let mut bytes = Vec::new();
        put(&mut bytes, 16, ACK, 7, |body| {
            body.extend_from_slice(&[1, 2, 3])
        });
        put(&mut bytes, 17, 0, 8, |_| {});
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].body, [1, 2, 3]);
        assert_eq!((read[0].kind, read[0].flags), (16, ACK | NLM_F_REQUEST));
        assert_eq!((read[1].kind, read[1].sequence), (17, 8));
        assert_eq!(messages(&bytes[..19]).count(), 1);
        assert_eq!(messages(&bytes[..18]).count(), 0);
        // A length shorter than the header.
        let short = [15_u8, 0, 0, 0].into_iter().chain([0; 16]);
        assert_eq!(messages(&short.collect::<Vec<_>>()).count(), 0);
    }

    #[test]
    fn error_has_a_number_and_an_optional_text() {
        let mut body = (-(Errno::ENOENT as i32)).to_ne_bytes().to_vec();
        body.extend_from_slice(&[0; HEADER]);
        attribute::put_text(&mut body, TEXT, "no such set");
        let message = |flags, body| Message {
            kind: NLMSG_ERROR,
            flags,
            sequence: 0,
            body,
        };
        let rejected = |detail: Option<&str>| {
            Some(Verdict::Rejected {
                errno: Errno::ENOENT,
                detail: detail.map(str::to_owned),
            })
        };
        let verdict = message(NLM_F_CAPPED | NLM_F_ACK_TLVS, &body).verdict();
        assert_eq!(verdict, rejected(Some("no such set")));
        assert_eq!(message(NLM_F_CAPPED, &body).verdict(), rejected(None));
        assert_eq!(message(0, &[0; 4]).verdict(), Some(Verdict::Done));
        // Decoding never panics.
        for length in 0..body.len() {
            let _cut = message(NLM_F_CAPPED | NLM_F_ACK_TLVS, &body[..length]).verdict();
            let _whole = message(NLM_F_ACK_TLVS, &body[..length]).verdict();
        }
        let lowest = message(0, &i32::MIN.to_ne_bytes()).verdict();
        assert!(matches!(lowest, Some(Verdict::Rejected { .. })));
    }
}
