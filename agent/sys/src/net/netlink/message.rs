//! Netlink messages: the header that every request and answer begins with, and
//! the kernel's verdict on a request
//! ([`include/uapi/linux/netlink.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/netlink.h)).

use nix::errno::Errno;

use super::attribute;

/// Length of a message's header.
const HEADER: usize = 16;
/// Messages begin at multiples of this.
const ALIGNMENT: usize = 4;

/// The kernel's verdict: an error number, 0 for success.
const ERROR: u16 = 2;
/// The end of a dump.
const DONE: u16 = 3;

/// The header's flag of every request.
pub const REQUEST: u16 = 1 << 0;
/// Have the kernel say also that a request succeeded.
pub const ACK: u16 = 1 << 2;
/// Ask for all objects.
pub const DUMP: u16 = 3 << 8;
/// Make the object where there is none.
pub const CREATE: u16 = 1 << 10;
/// In an answer: something changed in between, so objects may be missing or
/// twice.
pub const INTERRUPTED: u16 = 1 << 4;
/// Put the object behind those that are there.
pub const APPEND: u16 = 1 << 11;

/// In a verdict: no copy of the request's payload is in it.
const CAPPED: u16 = 1 << 8;
/// In a verdict: attributes follow.
const HAS_ATTRIBUTES: u16 = 1 << 9;
/// Attribute of a verdict: what is wrong, as a text.
const TEXT: u16 = 1;

/// Appends a message whose payload is what `fill` appends.
pub fn put(
    bytes: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    sequence: u32,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    // The sender's port: the kernel knows it.
    bytes.extend_from_slice(&[0; 4]);
    fill(bytes);
    let length = u32::try_from(bytes.len() - start).expect("a message is shorter than 4 GiB");
    bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
}

/// Sets further flags of the message that begins `bytes`.
pub fn add_flags(bytes: &mut [u8], more: u16) {
    if let Some(flags) = bytes.get_mut(6..8) {
        let set = u16::from_ne_bytes([flags[0], flags[1]]) | more;
        flags.copy_from_slice(&set.to_ne_bytes());
    }
}

/// One message that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is about; the meaning depends on the protocol.
    pub kind: u16,
    /// Flags of the header.
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

/// What the kernel says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was done, or the dump is complete.
    Done,
    /// It was not done.
    Refused {
        /// Why.
        errno: Errno,
        /// The kernel's own words, where it has any.
        detail: Option<String>,
    },
}

impl Message<'_> {
    /// The verdict, if the message is one.
    pub fn verdict(&self) -> Option<Verdict> {
        if self.kind != ERROR && self.kind != DONE {
            return None;
        }
        let (number, rest) = self.body.split_first_chunk::<4>()?;
        let number = i32::from_ne_bytes(*number);
        if number == 0 {
            return Some(Verdict::Done);
        }
        Some(Verdict::Refused {
            errno: Errno::from_raw(number.saturating_neg()),
            detail: self.detail(rest),
        })
    }

    /// The text behind the error number and, in an error, the header of the
    /// request.
    fn detail(&self, rest: &[u8]) -> Option<String> {
        if self.flags & HAS_ATTRIBUTES == 0 {
            return None;
        }
        let skipped = match self.kind {
            DONE => 0,
            _ if self.flags & CAPPED != 0 => HEADER,
            _ => length(rest)?.next_multiple_of(ALIGNMENT),
        };
        let text = attribute::find(rest.get(skipped..)?, TEXT)?;
        text.text().map(str::to_owned)
    }
}

/// The messages of a datagram, up to the first that is cut off.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = length(rest)?;
        let (header, _) = rest.split_first_chunk::<HEADER>()?;
        let message = Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            flags: u16::from_ne_bytes([header[6], header[7]]),
            sequence: u32::from_ne_bytes([header[8], header[9], header[10], header[11]]),
            body: rest.get(HEADER..length)?,
        };
        rest = rest
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
        Some(message)
    })
}

/// The length that a message says of itself.
fn length(bytes: &[u8]) -> Option<usize> {
    let (length, _) = bytes.split_first_chunk::<4>()?;
    usize::try_from(u32::from_ne_bytes(*length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        put(&mut bytes, 16, ACK, 7, |body| {
            body.extend_from_slice(&[1, 2, 3])
        });
        put(&mut bytes, 17, 0, 8, |_| {});
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].body, [1, 2, 3]);
        assert_eq!((read[0].kind, read[0].flags), (16, ACK | REQUEST));
        assert_eq!((read[1].kind, read[1].sequence), (17, 8));
        assert_eq!(messages(&bytes[..19]).count(), 1);
        assert_eq!(messages(&bytes[..18]).count(), 0);
    }

    #[test]
    fn an_error_has_a_number_and_may_have_a_text() {
        let mut body = (-(Errno::ENOENT as i32)).to_ne_bytes().to_vec();
        body.extend_from_slice(&[0; HEADER]);
        attribute::put_text(&mut body, TEXT, "no such set");
        let message = |flags, body| Message {
            kind: ERROR,
            flags,
            sequence: 0,
            body,
        };
        let refused = |detail: Option<&str>| {
            Some(Verdict::Refused {
                errno: Errno::ENOENT,
                detail: detail.map(str::to_owned),
            })
        };
        let told = message(CAPPED | HAS_ATTRIBUTES, &body).verdict();
        assert_eq!(told, refused(Some("no such set")));
        assert_eq!(message(CAPPED, &body).verdict(), refused(None));
        assert_eq!(message(0, &[0; 4]).verdict(), Some(Verdict::Done));
        // Any number and any rest is an answer or none, never a panic.
        for length in 0..body.len() {
            let _cut = message(CAPPED | HAS_ATTRIBUTES, &body[..length]).verdict();
            let _whole = message(HAS_ATTRIBUTES, &body[..length]).verdict();
        }
        let least = message(0, &i32::MIN.to_ne_bytes()).verdict();
        assert!(matches!(least, Some(Verdict::Refused { .. })));
    }
}
