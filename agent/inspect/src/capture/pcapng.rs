//! Packets as pcapng, the format that Wireshark, tshark and tcpdump read
//! ([draft-ietf-opsawg-pcapng](https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/)).
//!
//! A file has a section header, a description of each interface before its first packet, the packets, and the statistics
//! of each interface. A file that ends after any block can be read. Times are in nanoseconds.

use usher_core::node::packet::{Direction, Interface, Link, Packet, Reception};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

const ORDER: u32 = 0x1a2b_3c4d;
const UNKNOWN_LENGTH: u64 = u64::MAX;

/// Link types of the tcpdump registry.
const LINK_ETHERNET: u16 = 1;
const LINK_RAW: u16 = 101;

// Options.
const COMMENT: u16 = 1;
const SECTION_OS: u16 = 3;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const STATISTICS_START: u16 = 2;
const STATISTICS_END: u16 = 3;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_LOST: u16 = 5;
const STATISTICS_ACCEPTED: u16 = 6;
const STATISTICS_DROPPED: u16 = 7;
const STATISTICS_DELIVERED: u16 = 8;

/// Nanoseconds: ten to the minus nine.
const NANOSECONDS: u8 = 9;
/// Limit of an option; the format allows 65,535 bytes.
const MAX_OPTION: usize = 4096;
/// Offset of the VLAN tag, after the addresses of the Ethernet header.
const ADDRESSES: usize = 12;
/// Length of a VLAN tag.
const TAG: u32 = 4;

/// Statistics of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Start of the capture, in nanoseconds since 1970.
    pub start_ns: u64,
    pub end_ns: u64,
    pub delivered: u64,
    /// Matching packets that the kernel received, and those of them that it dropped, if both are known for this interface.
    pub received_and_dropped: Option<(u64, u64)>,
}

/// Writes blocks to a buffer, which the caller empties.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Starts a file: the program, the kernel, and a comment.
    pub fn section(&mut self, application: &str, os: &str, comment: &str) {
        self.block(SECTION, |body| {
            body.put(&ORDER.to_le_bytes());
            // Version 1.0.
            body.put(&[1, 0, 0, 0]);
            body.put(&UNKNOWN_LENGTH.to_le_bytes());
            body.option(SECTION_OS, os.as_bytes());
            body.option(SECTION_APPLICATION, application.as_bytes());
            body.option(COMMENT, comment.as_bytes());
            body.end_of_options();
        });
    }

    /// Describes the next interface. Packets refer to it by its number in the file.
    pub fn interface(&mut self, interface: &Interface, snap_length: u32, description: &str) {
        // A tag is restored after the kernel has cut the packet.
        let (link, longest) = match Link::of(interface.hardware) {
            Link::Ethernet => (LINK_ETHERNET, snap_length.saturating_add(TAG)),
            Link::Nothing => (LINK_RAW, snap_length),
        };
        self.block(INTERFACE, |body| {
            body.put(&link.to_le_bytes());
            body.put(&[0, 0]);
            body.put(&longest.to_le_bytes());
            body.option(INTERFACE_NAME, interface.name.as_bytes());
            body.option(INTERFACE_DESCRIPTION, description.as_bytes());
            body.option(INTERFACE_RESOLUTION, &[NANOSECONDS]);
            body.end_of_options();
        });
    }

    /// Adds a packet of the interface with number `described`.
    pub fn packet(&mut self, described: u32, packet: &Packet<'_>, comment: Option<&str>) {
        let tag = packet.vlan.map(|(protocol, tag)| {
            let ([a, b], [c, d]) = (protocol.to_be_bytes(), tag.to_be_bytes());
            [a, b, c, d]
        });
        // The kernel removes the VLAN tag from the header.
        let split = ADDRESSES.min(packet.bytes.len());
        let is_tagged = split == ADDRESSES && Link::of(packet.hardware) == Link::Ethernet;
        let tag: &[u8] = tag.as_ref().filter(|_| is_tagged).map_or(&[], |tag| tag);
        let captured = (packet.bytes.len() + tag.len()) as u32;
        let length = packet.length.saturating_add(tag.len() as u32);
        self.block(PACKET, |body| {
            body.put(&described.to_le_bytes());
            body.time(packet.at_ns);
            body.put(&captured.to_le_bytes());
            body.put(&length.max(captured).to_le_bytes());
            let (addresses, rest) = packet.bytes.split_at(split);
            body.put(addresses);
            body.put(tag);
            body.put(rest);
            body.pad();
            body.option(PACKET_FLAGS, &flags(packet).to_le_bytes());
            if let Some(comment) = comment {
                body.option(COMMENT, comment.as_bytes());
            }
            body.end_of_options();
        });
    }

    pub fn statistics(&mut self, described: u32, statistics: &Statistics, comment: Option<&str>) {
        self.block(STATISTICS, |body| {
            body.put(&described.to_le_bytes());
            body.time(statistics.end_ns);
            for (option, at_ns) in [
                (STATISTICS_START, statistics.start_ns),
                (STATISTICS_END, statistics.end_ns),
            ] {
                let (high, low) = halves(at_ns);
                let [a, b, c, d] = high.to_le_bytes();
                let [e, f, g, h] = low.to_le_bytes();
                body.option(option, &[a, b, c, d, e, f, g, h]);
            }
            if let Some((received, dropped)) = statistics.received_and_dropped {
                // Programs read these counters from the options that dumpcap uses.
                for (option, count) in [
                    (STATISTICS_RECEIVED, received),
                    (STATISTICS_LOST, dropped),
                    (STATISTICS_ACCEPTED, received),
                    (STATISTICS_DROPPED, dropped),
                ] {
                    body.option(option, &count.to_le_bytes());
                }
            }
            body.option(STATISTICS_DELIVERED, &statistics.delivered.to_le_bytes());
            if let Some(comment) = comment {
                body.option(COMMENT, comment.as_bytes());
            }
            body.end_of_options();
        });
    }

    /// A block: kind, length, body, and the length again.
    fn block(&mut self, kind: u32, put: impl FnOnce(&mut Body<'_>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        put(&mut Body {
            bytes: &mut self.bytes,
            start,
        });
        let length = (self.bytes.len() - start + 4) as u32;
        self.bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
    }
}

/// A block under construction.
struct Body<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl Body<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        let length = (self.bytes.len() - self.start).next_multiple_of(4);
        self.bytes.resize(self.start + length, 0);
    }

    /// The upper half comes first, even in a little-endian file.
    fn time(&mut self, at_ns: u64) {
        let (high, low) = halves(at_ns);
        self.put(&high.to_le_bytes());
        self.put(&low.to_le_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(MAX_OPTION)];
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn end_of_options(&mut self) {
        self.put(&[0; 4]);
    }
}

fn halves(at_ns: u64) -> (u32, u32) {
    ((at_ns >> 32) as u32, at_ns as u32)
}

/// Direction and reception type.
fn flags(packet: &Packet<'_>) -> u32 {
    let direction = match packet.direction() {
        None => 0,
        Some(Direction::In) => 1,
        Some(Direction::Out) => 2,
    };
    let reception = match packet.reception {
        Reception::Own => 1,
        Reception::Multicast => 2,
        Reception::Broadcast => 3,
        Reception::Other => 4,
        Reception::Outgoing => 0,
    };
    direction | reception << 2
}

#[cfg(test)]
mod tests;
