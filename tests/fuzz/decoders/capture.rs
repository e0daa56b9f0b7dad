//! Packets of a pod, from the kernel's ring to a file, and the filter that the kernel runs.

use std::{net::IpAddr, ops::ControlFlow};

use usher_core::node::packet::{Direction, Instruction, Interface, Packet, Reception};
use usher_inspect::capture::{
    Filter, Writer,
    filter::{Host, Protocol},
    line::Summary,
};
use usher_sys::net::packet;

/// `BPF_RET | BPF_K`, and the class of jumps.
const RETURN: u16 = 0x06;
const JUMPS: u16 = 0x05;
const ALWAYS: u16 = 0x05;
/// The kernel's limit of a program.
const LONGEST: usize = 4096;

/// A block of the ring that is shared with the kernel.
pub(super) fn ring(bytes: &[u8]) -> bool {
    let mut packets = 0_u32;
    packet::packets(bytes, |found| {
        packets += 1;
        assert!(found.bytes.len() <= bytes.len());
        show(&found);
        // The kernel sets the count; here it is only bounded by time.
        if packets < 64 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    packets > 0
}

/// One packet: 16 bytes of the kernel's metadata, and its own bytes.
pub(super) fn packet(bytes: &[u8]) -> bool {
    let Some((header, bytes)) = bytes.split_first_chunk::<16>() else {
        return false;
    };
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    show(&Packet {
        at_ns: u64::from(half(0)) << 48,
        interface: 1,
        hardware: half(2) % 1024,
        protocol: half(4),
        reception: Reception::of(header[6]),
        vlan: (header[7] & 1 == 1).then(|| (half(8), half(10))),
        length: u32::from(half(12)) << 16 | u32::from(half(14)),
        bytes,
    });
    true
}

fn show(packet: &Packet<'_>) {
    let line = Summary::of(packet).to_string();
    assert!(
        line.chars().all(|letter| (' '..='~').contains(&letter)),
        "{line:?}"
    );
    let mut writer = Writer::default();
    writer.section("fuzz", "Linux", &line);
    let interface = Interface {
        index: packet.interface,
        name: line.clone(),
        hardware: packet.hardware,
    };
    writer.interface(&interface, u32::MAX, "");
    writer.packet(0, packet, Some(&line));
    let kinds = blocks(writer.bytes());
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6]);
}

/// The kinds of the blocks of a pcapng file, each with its length at both ends.
fn blocks(mut bytes: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    let word = |bytes: &[u8], at: usize| {
        let word = bytes[at..].first_chunk().expect("a word");
        u32::from_le_bytes(*word)
    };
    while !bytes.is_empty() {
        let length = word(bytes, 4) as usize;
        assert!(length >= 12 && length.is_multiple_of(4));
        assert_eq!(word(bytes, length - 4) as usize, length);
        kinds.push(word(bytes, 0));
        bytes = &bytes[length..];
    }
    kinds
}

/// A filter, up to five bytes for each of its values, as a program that the kernel would accept
/// ([bpf_check_classic](https://github.com/torvalds/linux/blob/v6.18/net/core/filter.c)).
pub(super) fn filter(bytes: &[u8]) -> bool {
    let mut filter = Filter::default();
    for value in bytes.chunks_exact(6) {
        let [what, a, b, c, d, prefix] = *value else {
            continue;
        };
        let number = u32::from_be_bytes([a, b, c, d]);
        match what % 6 {
            0 => filter.interfaces.push(number),
            1 => filter.ports.push(number as u16),
            2 => filter.protocols.push(match a % 3 {
                0 => Protocol::Tcp,
                1 => Protocol::Udp,
                _ => Protocol::Icmp,
            }),
            3 => {
                filter.direction = Some(if a % 2 == 0 {
                    Direction::In
                } else {
                    Direction::Out
                });
            }
            4 => filter
                .hosts
                .extend(host(IpAddr::from([a, b, c, d]), prefix)),
            _ => {
                let words = [a, b, c, d].map(u16::from);
                let address =
                    IpAddr::from([words[0] << 8, 0, words[1], 0, words[2], 0, 0, words[3]]);
                filter.hosts.extend(host(address, prefix));
            }
        }
    }
    let program = filter.program(256);
    assert!(!program.is_empty() && program.len() <= LONGEST);
    for (at, instruction) in program.iter().enumerate() {
        for next in nexts(instruction) {
            assert!(
                at + 1 + next < program.len(),
                "{at} leads out of the program"
            );
        }
    }
    assert!(program.last().is_some_and(|last| last.code == RETURN));
    bytes.len() >= 6
}

fn host(address: IpAddr, prefix: u8) -> Option<Host> {
    let host = format!("{address}/{prefix}").parse();
    let most = if address.is_ipv4() { 32 } else { 128 };
    assert_eq!(host.is_ok(), prefix <= most);
    host.ok()
}

/// The possible numbers of skipped instructions after this one; empty at the end of the program.
fn nexts(instruction: &Instruction) -> Vec<usize> {
    match instruction.code {
        RETURN => Vec::new(),
        ALWAYS => vec![instruction.operand as usize],
        code if code & 0x07 == JUMPS => {
            let ways = [instruction.jump_true, instruction.jump_false];
            ways.map(usize::from).to_vec()
        }
        _ => vec![0],
    }
}
