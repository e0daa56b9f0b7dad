//! The packets in one block of a ring, in the kernel's layout
//! ([if_packet.h](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/if_packet.h)).
//!
//! The block is decoded as bytes, with all offsets checked.

use std::ops::ControlFlow;

use usher_core::node::packet::{Packet, Reception};

use crate::net::{u16_at, u32_at};

/// Offset of the status in `struct tpacket_block_desc`.
pub(super) const STATUS: usize = 8;
const PACKETS: usize = 12;
const FIRST: usize = 16;

// `struct tpacket3_hdr`.
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const CAPTURED: usize = 12;
const LENGTH: usize = 16;
const PACKET_STATUS: usize = 20;
const START: usize = 24;
const TAG: usize = 32;
const TAG_PROTOCOL: usize = 36;
/// Offset of the protocol in `struct sockaddr_ll`, the address after the header.
const PROTOCOL: usize = 50;
const INTERFACE: usize = 52;
const HARDWARE: usize = 56;
const RECEPTION: usize = 58;

const HAS_TAG: u32 = 1 << 4;
const HAS_TAG_PROTOCOL: u32 = 1 << 6;
/// 802.1Q, the default if the kernel reports no protocol.
const COMMON_TAG: u16 = 0x8100;

/// Passes the packets of a block to `take`, until it breaks or a header points outside the block.
pub fn packets(block: &[u8], mut take: impl FnMut(Packet<'_>) -> ControlFlow<()>) {
    let count = u32_at(block, PACKETS).unwrap_or(0);
    let mut at = u32_at(block, FIRST).unwrap_or(0) as usize;
    for _ in 0..count {
        let Some(header) = block.get(at..) else {
            return;
        };
        match packet(header) {
            Some(packet) if take(packet).is_continue() => {}
            _ => return,
        }
        match u32_at(header, NEXT) {
            Some(0) | None => return,
            Some(next) => at += next as usize,
        }
    }
}

fn packet(header: &[u8]) -> Option<Packet<'_>> {
    let start = usize::from(u16_at(header, START)?);
    let captured = u32_at(header, CAPTURED)? as usize;
    let status = u32_at(header, PACKET_STATUS)?;
    let tag = if status & HAS_TAG != 0 {
        let given = u16_at(header, TAG_PROTOCOL).filter(|_| status & HAS_TAG_PROTOCOL != 0);
        Some((given.unwrap_or(COMMON_TAG), u32_at(header, TAG)? as u16))
    } else {
        None
    };
    let seconds = u64::from(u32_at(header, SECONDS)?);
    Some(Packet {
        at_ns: seconds * 1_000_000_000 + u64::from(u32_at(header, NANOSECONDS)?),
        interface: u32_at(header, INTERFACE)?,
        hardware: u16_at(header, HARDWARE)?,
        protocol: u16::from_be(u16_at(header, PROTOCOL)?),
        reception: Reception::of(*header.get(RECEPTION)?),
        vlan: tag,
        length: u32_at(header, LENGTH)?,
        bytes: header.get(start..start.checked_add(captured)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn any_bytes_end(mut bytes in vec(any::<u8>(), 0..400), count in 0..9_u32, first in 0..90_u32) {
            if let Some(place) = bytes.get_mut(PACKETS..FIRST + 4) {
                place[..4].copy_from_slice(&count.to_ne_bytes());
                place[4..].copy_from_slice(&first.to_ne_bytes());
            }
            let mut seen = 0;
            packets(&bytes, |packet| {
                seen += 1;
                assert!(packet.bytes.len() <= bytes.len());
                ControlFlow::Continue(())
            });
            prop_assert!(seen <= count);
        }
    }

    #[test]
    fn packets_follow_each_other() {
        let mut block = vec![0; 200];
        let mut put = |at: usize, number: u32| {
            block[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        };
        put(PACKETS, 2);
        put(FIRST, 48);
        for (at, next, seconds) in [(48, 72, 5), (120, 0, 6)] {
            put(at + NEXT, next);
            put(at + SECONDS, seconds);
            put(at + NANOSECONDS, 7);
            put(at + CAPTURED, 2);
            put(at + LENGTH, 60);
            put(at + PACKET_STATUS, HAS_TAG);
            put(at + START, 68);
            put(at + TAG, 0x123);
            put(at + INTERFACE, 3);
            put(at + HARDWARE, 1 | 4 << 16);
        }
        block[48 + 68..48 + 70].copy_from_slice(&[1, 2]);
        let mut seen = Vec::new();
        packets(&block, |packet| {
            assert_eq!(packet.vlan, Some((COMMON_TAG, 0x123)));
            assert_eq!(
                (packet.interface, packet.hardware, packet.length),
                (3, 1, 60)
            );
            assert_eq!(packet.reception, Reception::Outgoing);
            seen.push((packet.at_ns, packet.bytes.to_vec()));
            ControlFlow::Continue(())
        });
        assert_eq!(
            seen,
            [(5_000_000_007, vec![1, 2]), (6_000_000_007, vec![0, 0])]
        );
    }
}
