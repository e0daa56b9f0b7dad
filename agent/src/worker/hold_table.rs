//! The table of one sandbox, and the copies of the SYNs that the table drops.
//!
//! The order matters. To arm: bind the reader of copies, then create the table, before the app starts. To release:
//! delete the elements of the held ports, which takes a tenth of the time of deleting the table; read the copies;
//! inject the copy of each connection that still waits; delete the table. The reader stays for a while, for copies
//! that were in flight.

mod copies;
mod release;
mod sender;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    base::time::Timestamp,
    hold::{
        Remains,
        ruleset::{self, HeldPort, Ruleset, Wanted},
        syn::{ConnectionCount, Syn},
    },
};
use usher_sys::net::{
    inject,
    netlink::{Protocol, Socket},
    netns::{self, Netns},
    nflog::{self, Log},
    nfqueue::{self, Queue},
    nft::{self, NftError},
    sockdiag,
};

pub(super) use self::copies::NodeCopies;
use self::{copies::SandboxCopies, sender::Sender};
use super::lanes::Lane;

/// More copies in one read than a waiting app sends.
const FLOOD: usize = 512;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Netns(#[from] netns::Error),
    #[error(transparent)]
    Table(#[from] NftError),
    #[error(transparent)]
    Log(#[from] nflog::Error),
    #[error(transparent)]
    Queue(#[from] nfqueue::Error),
    #[error(transparent)]
    Injector(#[from] inject::Error),
    #[error(transparent)]
    Sockets(#[from] sockdiag::Error),
}

impl Error {
    /// Whether another process may have the sockets of the hold: they close when it has exited.
    pub(super) fn may_be_in_use(&self) -> bool {
        match self {
            Self::Log(nflog::Error::Bind { source, .. })
            | Self::Queue(nfqueue::Error::Bind { source, .. }) => source.may_be_in_use(),
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct HoldTable {
    /// The start of the worker's timestamps.
    started: Instant,
    lane: Arc<Lane>,
    /// Whether the pod's own rules are so costly that no packet may be sent in its namespace.
    is_costly: bool,
    socket: Socket,
    log: Log,
    queue: Option<Queue>,
    /// Opened after the reply to the CNI plugin, so that the plugin does not wait for it.
    sender: Option<Sender>,
    copies: SandboxCopies,
    ports: Vec<u16>,
    count_only: bool,
    released: ConnectionCount,
    /// Whether the kernel released a port at its timeout.
    pub(super) timed_out: bool,
    /// Connections that were no longer waiting after a timeout.
    expired: ConnectionCount,
    /// Copies that were not injected for lack of time.
    not_injected: u64,
    /// The longest wait of a released connection until the release of its port; in observe mode, of a counted one.
    longest: Duration,
    /// The longest wait of an expired connection.
    longest_expired: Duration,
    /// Connections in observe mode, which only counts them.
    counted: usize,
    /// The time of the first counted connection to each port that is still held.
    first_counted: BTreeMap<u16, Timestamp>,
}

impl HoldTable {
    /// Creates the table, and the sockets that release its connections.
    ///
    /// # Errors
    /// Any [`Error`]; no table exists then.
    pub(super) fn arm(
        netns: &Netns,
        wanted: &Wanted,
        started: Instant,
        copies: SandboxCopies,
        lane: Arc<Lane>,
    ) -> Result<Self, Error> {
        let mut table = Self::open(netns, started, copies, lane)?;
        table.count_only = wanted.count_only;
        table.ports = wanted.ports.iter().map(|held| held.port).collect();
        if wanted.dns.is_some() {
            table.queue = Some(Queue::bind(netns, ruleset::GROUP)?);
        }
        crash_point::reach("reader-bound", "");
        nft::install(&table.socket, &Ruleset::of(wanted))?;
        crash_point::reach("table-made", "");
        Ok(table)
    }

    /// Adopts the table of an earlier agent; None if there is no table.
    ///
    /// # Errors
    /// Any [`Error`]. With `may_retry`, the table exists after one that [may be](Error::may_be_in_use) temporary.
    pub(super) fn adopt(
        netns: &Netns,
        started: Instant,
        copies: SandboxCopies,
        lane: Arc<Lane>,
        may_retry: bool,
    ) -> Result<Option<(Self, Remains)>, Error> {
        let socket = netns.netlink(Protocol::Netfilter)?;
        let Some(found) = nft::dump(&socket)? else {
            return Ok(None);
        };
        let held = found
            .remaining
            .iter()
            .filter(|remaining| remaining.set == ruleset::HELD);
        let ports = held.map(|left| (left.value, left.time)).collect();
        let remains = Remains::of(&found.ruleset, ports);
        let bound = Self::open(netns, started, copies, lane).and_then(|mut table| {
            if remains.queries {
                table.queue = Some(Queue::bind(netns, ruleset::GROUP)?);
            }
            Ok(table)
        });
        let mut table = match bound {
            Ok(table) => table,
            Err(error) if may_retry && error.may_be_in_use() => return Err(error),
            Err(error) => {
                // For example, a killed worker that is stuck in a system call still has the sockets.
                tracing::warn!(error = %chain(&error), "could not adopt connections and queries that wait; released them");
                nft::delete_table(&socket)?;
                return Ok(None);
            }
        };
        table.count_only = remains.count_only;
        table.ports = remains.ports.iter().map(|(port, _left)| *port).collect();
        Ok(Some((table, remains)))
    }

    /// Deletes a table whose owner is lost. Its connections continue with their next retransmission.
    pub(super) fn delete_leftover(netns: &Netns) -> Result<bool, Error> {
        Ok(nft::delete_table(&netns.netlink(Protocol::Netfilter)?)?)
    }

    fn open(
        netns: &Netns,
        started: Instant,
        copies: SandboxCopies,
        lane: Arc<Lane>,
    ) -> Result<Self, Error> {
        Ok(Self {
            started,
            lane,
            is_costly: false,
            socket: netns.netlink(Protocol::Netfilter)?,
            log: Log::bind(netns, ruleset::GROUP)?,
            queue: None,
            sender: None,
            copies,
            ports: Vec::new(),
            count_only: false,
            released: ConnectionCount::default(),
            timed_out: false,
            expired: ConnectionCount::default(),
            not_injected: 0,
            longest: Duration::ZERO,
            longest_expired: Duration::ZERO,
            counted: 0,
            first_counted: BTreeMap::new(),
        })
    }

    /// Opens the sockets that inject copies, after the reply to the CNI plugin.
    pub(super) fn open_sender(&mut self, netns: &Netns) {
        match Sender::open(netns) {
            Ok(sender) => self.sender = Some(sender),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not open the injector; connections continue with their next retransmissions");
            }
        }
    }

    /// Waits for copies and stores them. Returns whether there are more than a waiting app sends. Dropping the future
    /// loses no copy.
    ///
    /// # Errors
    /// If they cannot be read: without copies, connections continue with their next retransmission.
    pub(super) async fn receive_copies(&mut self) -> Result<bool, nflog::Error> {
        let mut arrived = Vec::new();
        self.log
            .receive(|packet| arrived.extend(Syn::parse(packet.payload).ok()))
            .await?;
        let now = self.now();
        let is_flood = arrived.len() >= FLOOD;
        for syn in arrived {
            self.receive(syn, now);
        }
        Ok(is_flood)
    }

    /// Whether the pod's own rules were too costly to send a packet.
    pub(super) fn is_costly(&self) -> bool {
        self.is_costly
    }

    /// What it holds, without the remaining times.
    pub(super) fn remains(&self) -> Remains {
        let ports = self.ports.iter().map(|port| (*port, Duration::ZERO));
        Remains {
            ports: ports.collect(),
            count_only: self.count_only,
            queries: self.queue.is_some(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::new(self.started.elapsed())
    }

    fn receive(&mut self, syn: Syn, now: Timestamp) {
        if self.count_only {
            let port = syn.connection().destination.port();
            // A rule of the pod may log other packets to the same group.
            if self.ports.contains(&port) {
                self.first_counted.entry(port).or_insert(now);
                self.counted += 1;
            }
        } else {
            self.copies.keep(syn, now);
        }
    }

    pub(super) fn renew(&mut self, ports: &[u16], timeout: Duration) {
        let held: Vec<HeldPort> = ports
            .iter()
            .map(|port| HeldPort {
                port: *port,
                timeout,
            })
            .collect();
        if let Err(error) = nft::renew(&self.socket, &held) {
            let ports = port_list(ports);
            tracing::warn!(error = %chain(&error), ports, "could not extend the timeout of held ports");
        }
    }

    pub(super) fn repair(&self, wanted: &Wanted) {
        if let Err(error) = nft::install(&self.socket, &Ruleset::of(wanted)) {
            tracing::warn!(error = %chain(&error), "could not replace the table; it stays as it was found");
        }
    }

    /// Returns whether the table existed.
    pub(super) fn delete(&self) -> Result<bool, NftError> {
        let deleted = nft::delete_table(&self.socket);
        if let Err(error) = &deleted {
            tracing::warn!(error = %chain(error), "could not delete the table; held ports are released at their deadline");
        }
        crash_point::reach("table-deleted", "");
        deleted
    }
}

/// A list of ports for log lines.
fn port_list(ports: &[u16]) -> String {
    ports
        .iter()
        .map(u16::to_string)
        .collect::<Vec<_>>()
        .join(",")
}
