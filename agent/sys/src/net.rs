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
