//! The gate of one sandbox: its table, the copies of what waits at it, and how
//! what waits is let go.
//!
//! Order matters. Armed: the reader of copies before the table, the table
//! before the app. Opened: the doors' elements go, which takes the kernel a tenth
//! of the time that the whole table takes; the copies that have come are read;
//! each connection that still waits is sent its copy again; then the table goes.
//! What comes later, of connections that were on their way, follows as long as
//! the reader stays.

mod opening;
mod sender;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    Event,
    base::{id::SandboxId, time::Timestamp},
    hold::{
        Remains,
        ruleset::{self, Door, Ruleset, Wanted},
        syn::{Connection, Copies, Syn},
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

use self::sender::Sender;

/// Copies in one look that are more than an app sends that waits.
const FLOOD: usize = 512;
/// Wait after that many. What comes meanwhile and finds no room is lost, and
/// goes on with its next retransmission.
const PAUSE: Duration = Duration::from_millis(2);

/// Why a gate cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
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

/// What a gate is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Let connections to these ports go.
    OpenSome(Vec<u16>),
    /// Let everything go and end.
    OpenAll,
    /// Have connections to these ports wait for so long from now on.
    Renew(Vec<u16>, Duration),
    /// Have the table be like this, in place of what is there.
    Mend(Wanted),
}

/// A gate.
#[derive(Debug)]
pub(crate) struct Gate {
    begin: Instant,
    table: Socket,
    log: Log,
    queue: Option<Queue>,
    /// Opened when the pod's start goes on: nothing of it is needed before.
    sender: Option<Sender>,
    copies: Copies,
    /// Ports whose doors were shut.
    ports: Vec<u16>,
    count_only: bool,
    /// Connections that were let go.
    released: BTreeSet<Connection>,
    /// Somebody's time was over before the doors were opened.
    timed_out: bool,
    /// Connections that had gone by then.
    gone: BTreeSet<Connection>,
    /// Since when the first of them waited, or was counted.
    first: Option<Timestamp>,
    /// Connections seen, where they are only counted.
    counted: usize,
}

impl Gate {
    /// Makes the table, and what it needs to be opened again.
    ///
    /// # Errors
    /// Any [`Error`]; then there is no table.
    pub(super) fn arm(netns: &Netns, wanted: &Wanted, begin: Instant) -> Result<Self, Error> {
        let mut gate = Self::open(netns, begin)?;
        gate.count_only = wanted.count_only;
        gate.ports = wanted.ports.iter().map(|door| door.port).collect();
        if wanted.dns.is_some() {
            gate.queue = Some(Queue::bind(netns, ruleset::GROUP)?);
        }
        crash_point::reach("reader-bound", "");
        nft::install(&gate.table, &Ruleset::of(wanted))?;
        crash_point::reach("table-made", "");
        Ok(gate)
    }

    /// Takes over the table that an earlier agent made, if there is one.
    ///
    /// # Errors
    /// Any [`Error`].
    pub(super) fn adopt(netns: &Netns, begin: Instant) -> Result<Option<(Self, Remains)>, Error> {
        let table = netns.netlink(Protocol::Netfilter)?;
        let Some(found) = nft::dump(&table)? else {
            return Ok(None);
        };
        let mut gate = Self::open(netns, begin)?;
        let doors = found
            .remaining
            .iter()
            .filter(|remaining| remaining.set == ruleset::HELD);
        let ports = doors.map(|left| (left.value, left.time)).collect();
        let remains = Remains::of(&found.ruleset, ports);
        gate.count_only = remains.count_only;
        gate.ports = remains.ports.iter().map(|(port, _left)| *port).collect();
        if remains.queries {
            gate.queue = Some(Queue::bind(netns, ruleset::GROUP)?);
        }
        Ok(Some((gate, remains)))
    }

    fn open(netns: &Netns, begin: Instant) -> Result<Self, Error> {
        Ok(Self {
            begin,
            table: netns.netlink(Protocol::Netfilter)?,
            log: Log::bind(netns, ruleset::GROUP)?,
            queue: None,
            sender: None,
            copies: Copies::default(),
            ports: Vec::new(),
            count_only: false,
            released: BTreeSet::new(),
            timed_out: false,
            gone: BTreeSet::new(),
            first: None,
            counted: 0,
        })
    }

    /// Stands there until it is opened or forgotten.
    pub(super) async fn run(
        mut self,
        sandbox: SandboxId,
        netns: Arc<Netns>,
        mut commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<Event>,
    ) {
        match Sender::open(&netns) {
            Ok(sender) => self.sender = Some(sender),
            Err(error) => {
                tracing::warn!(%sandbox, error = %chain(&error), "connections will be let go with their next retransmissions");
            }
        }
        drop(netns);
        loop {
            let begin = self.begin;
            let mut arrived = Vec::new();
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    // Where one refuses to open all are opened with the table.
                    Some(Command::OpenSome(ports)) => if self.open_some(&ports).is_err() { break },
                    Some(Command::Renew(ports, timeout)) => self.renew(&ports, timeout),
                    Some(Command::Mend(wanted)) => self.mend(&wanted),
                    Some(Command::OpenAll) => break,
                    // Forgotten: the namespace is going, or has gone.
                    None => {
                        drop(self.delete());
                        return;
                    }
                },
                read = self.log.receive(|packet| arrived.extend(Syn::parse(packet.payload).ok())) => {
                    if let Err(error) = read {
                        // Without copies connections go on with their next
                        // retransmission.
                        tracing::warn!(%sandbox, error = %chain(&error), "lost the copies of waiting connections");
                        break;
                    }
                }
            }
            let now = Timestamp::new(begin.elapsed());
            let flooded = arrived.len() >= FLOOD;
            for syn in arrived {
                self.came(syn, now);
            }
            if flooded {
                // Other pods come first.
                tokio::time::sleep(PAUSE).await;
            }
        }
        let result = self.open_all().await;
        let result = result.map_err(|error| chain(&error).to_string());
        // Closed before anybody hears of it, who may want to arm again.
        drop(self);
        // Nobody listens only when the agent is ending.
        drop(events.send(Event::Opened { sandbox, result }).await);
    }

    fn came(&mut self, syn: Syn, now: Timestamp) {
        if self.count_only {
            self.first.get_or_insert(now);
            self.counted += 1;
        } else {
            self.copies.keep(syn, now);
        }
    }

    fn renew(&mut self, ports: &[u16], timeout: Duration) {
        let doors: Vec<Door> = ports
            .iter()
            .map(|port| Door {
                port: *port,
                timeout,
            })
            .collect();
        if let Err(error) = nft::renew(&self.table, &doors) {
            tracing::warn!(error = %chain(&error), ?ports, "could not keep doors shut");
        }
    }

    fn mend(&self, wanted: &Wanted) {
        if let Err(error) = nft::install(&self.table, &Ruleset::of(wanted)) {
            tracing::warn!(error = %chain(&error), "could not make the table anew; it stays as it was found");
        }
    }

    /// Deletes the table, and says whether it was there.
    fn delete(&self) -> Result<bool, NftError> {
        let deleted = nft::delete_table(&self.table);
        if let Err(error) = &deleted {
            tracing::warn!(error = %chain(error), "could not delete the table; doors that are shut open at the deadline");
        }
        crash_point::reach("table-deleted", "");
        deleted
    }
}
