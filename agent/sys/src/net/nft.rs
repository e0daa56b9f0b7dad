//! nftables: the table that holds a pod's connections. It is written and read over netlink
//! ([`net/netfilter/nf_tables_api.c`](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nf_tables_api.c)).
//!
//! Every change is one batch. The kernel applies all of a batch or nothing, and replies before the system call that
//! sends the batch returns. A socket belongs to one network namespace
//! ([`Netns::netlink`](crate::net::netns::Netns::netlink)) and must have only one user at a time.
//!
//! The bodies are encoded here. netlink-packet-netfilter 0.4.0 panics on a set element with a short key
//! (`NlaBuffer::new` without a check) and lacks the expressions counter, log, queue and target. The `nftables` crate
//! runs the program `nft`.
//!
//! What can go wrong: no `CAP_NET_ADMIN` in the user namespace that owns the network namespace (`EPERM`); a kernel
//! without an expression (`ENOENT`; `feature_probe` detects which); a table that a process owns (`EPERM`). Tested on
//! Linux 6.18; the latest required feature, timeouts of elements, came with 4.1.

mod batch;
mod cost;
mod dump;
mod expression;
mod feature_probe;
mod foreign;
mod found;
mod number;
mod query;
mod rule;
#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use nix::errno::Errno;
use usher_core::hold::ruleset::{COPYING, HELD, HeldPort, Ruleset, Transport};

use self::batch::Batch;
pub use self::{
    cost::{Cost, cost, generation},
    feature_probe::{Features, probe},
    foreign::{ChainKind, ForeignChain, ForeignTables, Hook, HookPoint, foreign_tables},
    found::{Found, RemainingTime, decode},
};
use crate::net::netlink::Socket;

/// The operation that failed. The variant's name is its label for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", prefix = "nft-")]
pub enum Operation {
    /// Creating a table.
    Install,
    /// Deleting the table.
    Delete,
    /// Deleting elements of a set.
    Release,
    /// Setting new timeouts of elements.
    Renew,
    /// Reading the table.
    Dump,
    /// Reading all rules of the namespace.
    Measure,
}

impl Operation {
    fn words(self) -> &'static str {
        match self {
            Self::Install => "installing the hold",
            Self::Delete => "deleting the hold",
            Self::Release => "releasing the hold",
            Self::Renew => "renewing the hold",
            Self::Dump => "reading the hold",
            Self::Measure => "reading the packet filter",
        }
    }
}

/// The kernel rejected an operation.
#[derive(Debug, thiserror::Error)]
#[error("{words}: {object}{detail}", words = .operation.words(),
        detail = .detail.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
pub struct NftError {
    pub operation: Operation,
    /// The first object that failed: `table`, `set`, `chain`, `rule`, `element` or `batch`.
    pub object: &'static str,
    /// The kernel's text (ext-ack), if it sent one.
    pub detail: Option<String>,
    pub source: io::Error,
}

impl NftError {
    /// Label for metrics.
    pub fn kind(&self) -> &'static str {
        self.operation.into()
    }

    /// Whether an object is missing: a table, an element, or an expression in this kernel.
    pub fn is_not_there(&self) -> bool {
        self.is(Errno::ENOENT)
    }

    /// Whether nfnetlink lacks the subsystem.
    fn has_no_nftables(&self) -> bool {
        self.is(Errno::EINVAL)
    }

    pub fn is(&self, errno: Errno) -> bool {
        self.source.raw_os_error() == Some(errno as i32)
    }
}

/// The batch that creates the table and replaces an existing one.
pub fn encode(ruleset: &Ruleset) -> Vec<u8> {
    install_batch(ruleset).finish()
}

fn install_batch(ruleset: &Ruleset) -> Batch {
    let mut batch = Batch::new();
    // Deleting a missing table fails, so the batch creates the table first.
    batch.add_table();
    batch.delete_table();
    batch.add_table();
    for (index, set) in ruleset.sets.iter().enumerate() {
        batch.add_set(set, index);
    }
    for chain in &ruleset.chains {
        batch.add_chain(chain);
        for rule in &chain.rules {
            batch.add_rule(&chain.name, rule);
        }
    }
    for set in &ruleset.sets {
        batch.add_elements(&set.name, set.key, &set.elements);
    }
    batch
}

/// Creates the table, or replaces an existing one.
///
/// # Errors
/// [`NftError`]; the previous table is then unchanged.
pub fn install(socket: &Socket, ruleset: &Ruleset) -> Result<(), NftError> {
    install_batch(ruleset).send(socket, Operation::Install)
}

/// Deletes the table with its content, and returns whether it existed.
pub fn delete_table(socket: &Socket) -> Result<bool, NftError> {
    let mut batch = Batch::new();
    batch.delete_table();
    unless_not_there(batch.send(socket, Operation::Delete))
}

/// Releases these ports; true if all of them were held until now. A port is not held after its timeout, or without a
/// table.
///
/// # Errors
/// [`NftError`] of the first port that fails; the other ports are released nevertheless.
pub fn delete_elements(socket: &Socket, ports: &[u16]) -> Result<bool, NftError> {
    let mut result = Ok(true);
    // One batch for each port, because a missing element would undo a common batch.
    for port in ports {
        let mut batch = Batch::new();
        batch.delete_element(HELD, &port.to_be_bytes());
        let sent = unless_not_there(batch.send(socket, Operation::Release));
        result = result.and_then(|before| sent.map(|there| before && there));
    }
    result
}

/// Holds or counts these ports for the given times from now on, and copies packets for the longest of these times. A
/// released port is held again. Ports that are not in `held_ports` are unchanged.
///
/// # Errors
/// [`NftError`] of the first port that fails; the other ports are renewed nevertheless. [`NftError::is_not_there`]
/// means that the table is missing.
pub fn renew(socket: &Socket, held_ports: &[HeldPort]) -> Result<(), NftError> {
    let mut result = Ok(());
    for held_port in held_ports {
        let key = held_port.port.to_be_bytes();
        result = result.and(renew_element(socket, HELD, &key, held_port.timeout));
    }
    if let Some(longest) = held_ports.iter().map(|held_port| held_port.timeout).max() {
        let tcp = [Transport::Tcp.number()];
        // A table that only counts has no set of copies.
        let renewed = unless_not_there(renew_element(socket, COPYING, &tcp, longest));
        result = result.and(renewed.map(drop));
    }
    result
}

/// Deletes and adds the element, because kernels before 6.12 do not update the timeout of an existing one.
fn renew_element(
    socket: &Socket,
    set: &str,
    key: &[u8],
    timeout: Duration,
) -> Result<(), NftError> {
    let mut batch = Batch::new();
    batch.delete_element(set, key);
    batch.add_element(set, key, timeout);
    match batch.send(socket, Operation::Renew) {
        Err(error) if error.is_not_there() => {
            let mut batch = Batch::new();
            batch.add_element(set, key, timeout);
            batch.send(socket, Operation::Renew)
        }
        sent => sent,
    }
}

/// Whether the table exists, with any content. A kernel without nftables has no table.
pub fn exists(socket: &Socket) -> Result<bool, NftError> {
    match dump::head(socket) {
        Err(error) if error.is_not_there() || error.has_no_nftables() => Ok(false),
        found => found.map(|()| true),
    }
}

/// Reads the table; None if it does not exist.
pub fn dump(socket: &Socket) -> Result<Option<Found>, NftError> {
    match dump::table(socket) {
        Err(error) if error.is_not_there() => Ok(None),
        found => found.map(Some),
    }
}

fn unless_not_there(sent: Result<(), NftError>) -> Result<bool, NftError> {
    match sent {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_there() => Ok(false),
        Err(error) => Err(error),
    }
}
