//! A packet that the kernel copied, and the program that selects packets.

/// Hardware types of interfaces ([if_arp.h](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/if_arp.h)).
pub const ETHERNET: u16 = 1;
pub const LOOPBACK: u16 = 772;

pub const ETHERNET_HEADER: usize = 14;

/// The header before the network header of an interface's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header; that of loopback contains only zeros.
    Ethernet,
    Nothing,
}

impl Link {
    pub fn of(hardware: u16) -> Self {
        match hardware {
            ETHERNET | LOOPBACK => Self::Ethernet,
            _ => Self::Nothing,
        }
    }

    /// The length of the header in bytes.
    pub fn header(self) -> usize {
        match self {
            Self::Ethernet => ETHERNET_HEADER,
            Self::Nothing => 0,
        }
    }
}

/// The direction of a packet, from the pod's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// The receiver of a packet on its link: `PACKET_HOST` and so on
/// ([packet(7)](https://man7.org/linux/man-pages/man7/packet.7.html)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    Own,
    Broadcast,
    Multicast,
    Other,
    Outgoing,
}

impl Reception {
    /// Converts the kernel's number.
    pub fn of(number: u8) -> Self {
        match number {
            0 => Self::Own,
            1 => Self::Broadcast,
            2 => Self::Multicast,
            4 => Self::Outgoing,
            _ => Self::Other,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    /// Its name, which the owner of the namespace may choose.
    pub name: String,
    pub hardware: u16,
}

/// A packet that the kernel copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time in nanoseconds since 1970.
    pub at_ns: u64,
    pub interface: u32,
    /// Its interface's hardware type.
    pub hardware: u16,
    /// The protocol after the link header.
    pub protocol: u16,
    pub reception: Reception,
    /// A VLAN's protocol and tag, which the kernel removes from the link header.
    pub vlan: Option<(u16, u16)>,
    pub length: u32,
    /// Its first bytes, from the link header on.
    pub bytes: &'a [u8],
}

impl Packet<'_> {
    /// The direction of the packet; None on loopback.
    pub fn direction(&self) -> Option<Direction> {
        match self.reception {
            _ if self.hardware == LOOPBACK => None,
            Reception::Outgoing => Some(Direction::Out),
            _ => Some(Direction::In),
        }
    }
}

/// `struct sock_filter` ([filter.h](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/filter.h)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    /// Instructions to skip where the condition holds.
    pub jump_true: u8,
    /// Instructions to skip where it does not.
    pub jump_false: u8,
    pub operand: u32,
}

impl Instruction {
    /// A program of only this instruction accepts no packet.
    pub const REFUSE: Self = Self {
        code: 0x06,
        jump_true: 0,
        jump_false: 0,
        operand: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_packet_was_for_by_the_kernels_number() {
        for (number, reception) in [
            (0, Reception::Own),
            (1, Reception::Broadcast),
            (2, Reception::Multicast),
            (3, Reception::Other),
            (4, Reception::Outgoing),
            // `PACKET_LOOPBACK`, which no socket is given, and what no kernel has yet.
            (5, Reception::Other),
            (255, Reception::Other),
        ] {
            assert_eq!(Reception::of(number), reception, "{number}");
        }
    }
}
