//! nftables: the table that holds a pod's connections, written to and read
//! from the kernel over netlink
//! ([`net/netfilter/nf_tables_api.c`](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nf_tables_api.c)).
//!
//! Every change is one batch, which the kernel takes as a whole or not at all,
//! and answers before the system call that sends it returns. A socket is of one
//! network namespace ([`Netns::netlink`](crate::net::netns::Netns::netlink)) and of
//! nobody else while it is used here.
//!
//! What can go wrong: no `CAP_NET_ADMIN` in the user namespace that owns the
//! network namespace (`EPERM`); a kernel without an expression (`ENOENT`; `probe`
//! tells which); a table that a process owns (`EPERM`). Run on Linux 6.18; the
//! youngest part, the elements' own times, came with 4.1.

mod batch;
mod dump;
mod expression;
mod found;
mod number;
mod others;
mod probe;
mod rule;
#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use nix::errno::Errno;
use usher_core::hold::ruleset::{COPYING, Door, HELD, Ruleset, Transport};

use self::batch::Batch;
pub use self::{
    found::{Found, Left, decode},
    others::{Foreign, Others, others},
    probe::{Features, probe},
};
use crate::net::netlink::Socket;

/// What was to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A table was to be made.
    Install,
    /// The table was to be deleted.
    Delete,
    /// Elements were to be taken out of a set.
    Release,
    /// Elements were to get a new time.
    Renew,
    /// The table was to be read.
    Dump,
}

impl Operation {
    /// For metrics.
    fn kind(self) -> &'static str {
        match self {
            Self::Install => "nft-install",
            Self::Delete => "nft-delete",
            Self::Release => "nft-release",
            Self::Renew => "nft-renew",
            Self::Dump => "nft-dump",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Install => "installing",
            Self::Delete => "deleting",
            Self::Release => "releasing",
            Self::Renew => "renewing",
            Self::Dump => "reading",
        }
    }
}

/// The kernel did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{words} the hold: {object}{detail}", words = .operation.words(),
        detail = .detail.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
pub struct NftError {
    /// What was to be done.
    pub operation: Operation,
    /// The first part of it that failed: `table`, `set`, `chain`, `rule`,
    /// `element`, `batch`.
    pub object: &'static str,
    /// The kernel's own words, where it has any.
    pub detail: Option<String>,
    /// Why.
    pub source: io::Error,
}

impl NftError {
    /// What failed, for metrics.
    pub fn kind(&self) -> &'static str {
        self.operation.kind()
    }

    /// Whether what was asked for is not there: a table, an element, or an
    /// expression in this kernel.
    pub fn is_not_there(&self) -> bool {
        self.source.raw_os_error() == Some(Errno::ENOENT as i32)
    }
}

/// The batch that makes a table, in place of one that may be there.
pub fn encode(ruleset: &Ruleset) -> Vec<u8> {
    install_batch(ruleset).finish()
}

fn install_batch(ruleset: &Ruleset) -> Batch {
    let mut batch = Batch::new();
    // What is not there cannot be deleted, so it is made first.
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

/// Makes the table, in place of one that may be there.
///
/// # Errors
/// [`NftError`]; then what was there is as before.
pub fn install(socket: &Socket, ruleset: &Ruleset) -> Result<(), NftError> {
    install_batch(ruleset).send(socket, Operation::Install)
}

/// Deletes the table, whatever is in it, and says whether there was one.
///
/// # Errors
/// [`NftError`].
pub fn delete_table(socket: &Socket) -> Result<bool, NftError> {
    let mut batch = Batch::new();
    batch.delete_table();
    unless_not_there(batch.send(socket, Operation::Delete))
}

/// Has nobody wait at these ports any more, and says whether somebody had to at
/// every one of them until now: not where its time is over or the table is gone.
///
/// # Errors
/// [`NftError`] of the first port that fails; the others are released all the
/// same.
pub fn delete_elements(socket: &Socket, ports: &[u16]) -> Result<bool, NftError> {
    let mut result = Ok(true);
    // One batch for each: one element that is gone would stop all.
    for port in ports {
        let mut batch = Batch::new();
        batch.delete_element(HELD, &port.to_be_bytes());
        let sent = unless_not_there(batch.send(socket, Operation::Release));
        result = result.and_then(|before| sent.map(|there| before && there));
    }
    result
}

/// Has connections wait at these ports for the times given, from now on, and has
/// copies handed out for the longest of them. A port that is open is closed
/// again; one that is not among `doors` is left as it is.
///
/// # Errors
/// [`NftError`] of the first port that fails; the others are renewed all the
/// same. With [`NftError::is_not_there`] there is no table.
pub fn renew(socket: &Socket, doors: &[Door]) -> Result<(), NftError> {
    let mut result = Ok(());
    for door in doors {
        let key = door.port.to_be_bytes();
        result = result.and(renew_element(socket, HELD, &key, door.timeout));
    }
    if let Some(longest) = doors.iter().map(|door| door.timeout).max() {
        let tcp = [Transport::Tcp.number()];
        result = result.and(renew_element(socket, COPYING, &tcp, longest));
    }
    result
}

/// Deletes and adds, since a kernel before 6.12 leaves an element that is there
/// as it is.
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

/// Whether there is a table, whatever is in it. A kernel without nftables has none.
///
/// # Errors
/// [`NftError`].
pub fn exists(socket: &Socket) -> Result<bool, NftError> {
    // What nfnetlink says of a subsystem that is not there.
    let no_tables = |error: &NftError| error.source.raw_os_error() == Some(Errno::EINVAL as i32);
    match dump::head(socket) {
        Err(error) if error.is_not_there() || no_tables(&error) => Ok(false),
        found => found.map(|()| true),
    }
}

/// Reads the table back; None where there is none.
///
/// # Errors
/// [`NftError`].
pub fn dump(socket: &Socket) -> Result<Option<Found>, NftError> {
    match dump::table(socket) {
        Err(error) if error.is_not_there() => Ok(None),
        found => found.map(Some),
    }
}

/// How many packets the gate has counted: attempts to connect, with their
/// repetitions. 0 where there is no table.
///
/// # Errors
/// [`NftError`].
pub fn count_held(socket: &Socket) -> Result<u64, NftError> {
    Ok(dump::rules(socket)?.packets)
}

fn unless_not_there(sent: Result<(), NftError>) -> Result<bool, NftError> {
    match sent {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_there() => Ok(false),
        Err(error) => Err(error),
    }
}
