//! The expressions of a rule. All use the same register.
//!
//! Encoding and decoding cover the expressions of usher's own rules; any other is decoded as [`Expression::Other`].

mod read;

use usher_core::hold::ruleset::Queue;

use crate::net::netlink::attribute::{nest, put, put_text, put_u16, put_u32, put_u64};

/// Attributes of a list of expressions, and of one.
pub(super) const ELEMENT: u16 = 1;
const NAME: u16 = 1;
const DATA: u16 = 2;
/// Data: bytes, or a verdict on the packet.
const VALUE: u16 = 1;
const VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;

/// The register of all loads and comparisons.
const REGISTER: u32 = 1;
const REGISTER_VERDICT: u32 = 0;

/// `NF_ACCEPT` and `NF_DROP`.
pub(super) const ACCEPT: u32 = 1;
pub(super) const DROP: u32 = 0;

/// A flag: packets pass a queue without a listener.
const BYPASS: u16 = 1;
/// The revision of iptables' NFQUEUE target that has these flags.
const TARGET: &str = "NFQUEUE";
const TARGET_REVISION: u32 = 3;

/// Metadata of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meta {
    /// Priority of the socket; 4 bytes in host byte order.
    Priority,
    /// User of the socket; 4 bytes in host byte order.
    User,
    /// Group of the socket; 4 bytes in host byte order.
    Group,
    /// Version of IP as `NFPROTO_*`; 1 byte.
    Version,
    /// Protocol of the transport layer; 1 byte.
    Protocol,
}

const METAS: [(Meta, u32); 5] = [
    (Meta::Priority, 2),
    (Meta::User, 10),
    (Meta::Group, 11),
    (Meta::Version, 15),
    (Meta::Protocol, 16),
];

/// A range of bytes in the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// 1 for the network header, 2 for the transport header.
    pub(super) base: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// Loads metadata of the packet.
    Meta(Meta),
    /// Loads bytes of the packet.
    Payload(Field),
    /// Keeps these bits of the register.
    Mask(Vec<u8>),
    /// Continues if the register equals this value.
    Equals(Vec<u8>),
    /// Continues if the register is in this set.
    Lookup(String),
    /// Counts packets; the value is the count so far.
    Counter(u64),
    /// Sends a copy to an nflog group at once.
    Log(u16),
    Verdict(u32),
    /// Queues the packet, if the queue has a listener.
    Queue(u16, Queue),
    /// Any other expression, with its name.
    Other(String),
}

impl Expression {
    pub(super) fn put(&self, list: &mut Vec<u8>) {
        nest(list, ELEMENT, |out| {
            put_text(out, NAME, self.name());
            nest(out, DATA, |data| self.put_data(data));
        });
    }

    fn name(&self) -> &str {
        match self {
            Self::Meta(_) => "meta",
            Self::Payload(_) => "payload",
            Self::Mask(_) => "bitwise",
            Self::Equals(_) => "cmp",
            Self::Lookup(_) => "lookup",
            Self::Counter(_) => "counter",
            Self::Log(_) => "log",
            Self::Verdict(_) => "immediate",
            Self::Queue(_, Queue::Native) => "queue",
            Self::Queue(_, Queue::Compat) => "target",
            Self::Other(name) => name,
        }
    }

    fn put_data(&self, out: &mut Vec<u8>) {
        match self {
            Self::Meta(meta) => {
                put_u32(out, 1, REGISTER);
                let known = METAS.iter().find(|(known, _)| known == meta);
                put_u32(out, 2, known.map_or(0, |(_, number)| *number));
            }
            Self::Payload(field) => {
                put_u32(out, 1, REGISTER);
                put_u32(out, 2, field.base);
                put_u32(out, 3, field.offset);
                put_u32(out, 4, field.length);
            }
            Self::Mask(mask) => {
                put_u32(out, 1, REGISTER);
                put_u32(out, 2, REGISTER);
                put_u32(out, 3, u32::try_from(mask.len()).unwrap_or(0));
                nest(out, 4, |data| put(data, VALUE, mask));
                nest(out, 5, |data| put(data, VALUE, &vec![0; mask.len()]));
            }
            Self::Equals(value) => {
                put_u32(out, 1, REGISTER);
                put_u32(out, 2, 0);
                nest(out, 3, |data| put(data, VALUE, value));
            }
            Self::Lookup(set) => {
                put_text(out, 1, set);
                put_u32(out, 2, REGISTER);
            }
            Self::Counter(packets) => {
                put_u64(out, 1, 0);
                put_u64(out, 2, *packets);
            }
            Self::Other(_) => {}
            Self::Log(group) => {
                put_u16(out, 1, *group);
                // The number of copies to batch. The attribute for the length is omitted, because 0 would copy nothing.
                put_u16(out, 4, 1);
            }
            Self::Verdict(code) => {
                put_u32(out, 1, REGISTER_VERDICT);
                nest(out, 2, |data| {
                    nest(data, VERDICT, |verdict| {
                        put_u32(verdict, VERDICT_CODE, *code)
                    });
                });
            }
            Self::Queue(number, Queue::Native) => {
                put_u16(out, 1, *number);
                put_u16(out, 2, 1);
                put_u16(out, 3, BYPASS);
            }
            Self::Queue(number, Queue::Compat) => {
                put_text(out, 1, TARGET);
                put_u32(out, 2, TARGET_REVISION);
                // struct xt_NFQ_info_v3 in host byte order, padded to 8 bytes.
                let info = [*number, 1, BYPASS, 0].map(u16::to_ne_bytes).concat();
                put(out, 3, &info);
            }
        }
    }
}
