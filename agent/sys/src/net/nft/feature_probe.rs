//! Features of this kernel, probed in an empty network namespace that is deleted afterwards.

use std::time::Duration;

use usher_core::hold::ruleset::{HeldPort, Queue, Ruleset, Wanted};

use super::{NftError, install};
use crate::net::{
    netlink::{Protocol, Socket},
    netns::{Error, Netns},
    sockdiag::{self, Sockets},
};

/// The available features, and the reason for each missing one.
#[derive(Debug)]
pub struct Features {
    /// Connections can be held: sets whose elements have timeouts, and the matches of the rules
    /// (`CONFIG_NF_TABLES_INET`).
    pub table: Result<(), NftError>,
    /// Packets that open a connection can be copied (`CONFIG_NFT_LOG`, `CONFIG_NETFILTER_NETLINK_LOG`).
    pub log: Result<(), NftError>,
    /// DNS queries can be queued by nftables itself (`CONFIG_NFT_QUEUE`).
    pub native_queue: Result<(), NftError>,
    /// DNS queries can be queued by iptables' target (`CONFIG_NFT_COMPAT`, `CONFIG_NETFILTER_XT_TARGET_NFQUEUE`).
    pub compat_queue: Result<(), NftError>,
    /// TCP sockets can be looked up (`CONFIG_INET_TCP_DIAG`).
    pub sock_diag: Result<bool, sockdiag::Error>,
}

impl Features {
    /// The queue to use; nftables' own has priority.
    pub fn queue(&self) -> Option<Queue> {
        match (&self.native_queue, &self.compat_queue) {
            (Ok(()), _) => Some(Queue::Native),
            (_, Ok(())) => Some(Queue::Compat),
            _ => None,
        }
    }
}

/// Probes all features. Takes some milliseconds, in which the calling thread waits.
///
/// # Errors
/// If no namespace can be created (`EPERM` without `CAP_SYS_ADMIN`), or no socket opened in it.
pub fn probe() -> Result<Features, Error> {
    let netns = Netns::scratch()?;
    let socket = netns.netlink(Protocol::Netfilter)?;
    let try_to = |count_only, dns| attempt(&socket, count_only, dns);
    Ok(Features {
        table: try_to(false, None).or_else(|error| without_log(&socket, error)),
        log: try_to(true, None),
        native_queue: try_to(false, Some(Queue::Native)),
        compat_queue: try_to(false, Some(Queue::Compat)),
        sock_diag: Sockets::open(&netns).and_then(|mut sockets| sockets.is_supported()),
    })
}

fn attempt(socket: &Socket, count_only: bool, dns: Option<Queue>) -> Result<(), NftError> {
    install(socket, &wanted(count_only, dns))
}

/// Installs the table without the chain that copies packets. On a kernel that lacks only that feature, held connections
/// continue one retransmission (1 s) after their release.
fn without_log(socket: &Socket, error: NftError) -> Result<(), NftError> {
    let mut ruleset = wanted(false, None);
    ruleset
        .chains
        .retain(|chain| chain.name != usher_core::hold::ruleset::COPY);
    install(socket, &ruleset).map_err(|_same| error)
}

fn wanted(count_only: bool, dns: Option<Queue>) -> Ruleset {
    let held_port = HeldPort {
        port: 1,
        timeout: Duration::from_secs(1),
    };
    Ruleset::of(&Wanted {
        ports: vec![held_port],
        dns,
        exempt_uids: vec![1],
        exempt_gids: vec![1],
        count_only,
    })
}
