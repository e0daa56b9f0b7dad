//! Network namespaces: interfaces, nftables, iptables, nflog, nfqueue, sock_diag, packet sockets.

pub mod feature_probe;
pub mod inject;
pub mod iptables;
pub mod link;
pub mod netlink;
pub mod netns;
pub mod nflog;
pub mod nfqueue;
pub mod nft;
pub mod owner;
pub mod packet;
pub mod sockdiag;
pub mod tcp;

/// The number at this offset, in host byte order.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
