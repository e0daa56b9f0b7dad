//! Releases a hold: the held ports, then the connections that wait, then the table.

use std::time::{Duration, Instant};

use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    base::time::Timestamp,
    hold::{MAX_HELD_PORTS, Tally, syn::Syn},
};
use usher_sys::net::{
    netns::Netns,
    nft::{self, NftError},
};

use super::{HoldTable, port_list, sender::Injection};

/// The release of all ports.
#[derive(Debug)]
pub(in crate::worker) struct Released {
    at: Timestamp,
    timed_out: bool,
}

/// Time limit for injecting copies: the pod's own rules may make each of them slow.
const INJECTING: Duration = Duration::from_millis(300);

impl HoldTable {
    pub(in crate::worker) fn release_ports(
        &mut self,
        netns: &Netns,
        ports: &[u16],
    ) -> Result<(), NftError> {
        if self.count_only {
            // What has arrived for these ports counts.
            self.read();
        }
        let before = self.lane.rules.generation();
        let released = nft::delete_elements(&self.socket, ports);
        match &released {
            Ok(were_held) => {
                // After the loss of a worker, the agent releases ports again that may already be released.
                self.timed_out |= !were_held && ports.iter().all(|port| self.ports.contains(port));
                self.ports.retain(|port| !ports.contains(port));
                if *were_held {
                    // One batch for each port.
                    self.lane.rules.removed(before, ports.len());
                }
            }
            Err(error) => {
                let ports = port_list(ports);
                tracing::warn!(error = %chain(error), ports, "could not release held ports; deleting the table or the deadline releases them");
            }
        }
        crash_point::reach("ports-released", "");
        self.release_connections(netns);
        released.map(drop)
    }

    /// Reads the copies that have arrived, without waiting.
    fn read(&mut self) {
        let now = self.now();
        let mut arrived = Vec::new();
        let read = self
            .log
            .drain(|packet| arrived.extend(Syn::parse(packet.payload).ok()));
        if let Err(error) = read {
            tracing::debug!(error = %chain(&error), "could not read the copies of waiting connections");
        }
        for syn in arrived {
            self.receive(syn, now);
        }
    }

    /// Injects the copies of connections that still wait, and releases queries. The table drops and copies again the
    /// packets to held ports, and queues again the queries to them.
    pub(in crate::worker) fn release_connections(&mut self, netns: &Netns) {
        self.read();
        let waits = self.copies.len() > 0 || self.queue.is_some();
        // Changed rules are read with a separate socket: on the table's socket, the rest of a long dump would delay the
        // next change. It closes after the copies are sent, because that waits for an RCU grace period (10 ms) after a
        // change of the table.
        let rules = waits.then(|| self.lane.rules.check_again(&self.socket, netns));
        if matches!(rules, Some(Err(_))) {
            // Connections and queries continue with their retransmissions, which cost the pod's own processor time.
            self.is_costly = true;
            self.sender = None;
            self.queue = None;
        }
        if let Some(queue) = &self.queue
            && let Err(error) = queue.repeat_all()
        {
            tracing::warn!(error = %chain(&error), "could not release DNS queries; their resolvers retry");
        }
        let now = self.now();
        let counted = self
            .first_counted
            .extract_if(.., |port, _| !self.ports.contains(port));
        for (_port, first) in counted {
            self.longest = self.longest.max(now.since(first));
        }
        let Some(sender) = &mut self.sender else {
            return;
        };
        let begun = Instant::now();
        // Does not count copies that are put back below.
        let mut left = self.copies.len();
        while left > 0 {
            let batch = self.copies.take_batch(left);
            if batch.is_empty() {
                break;
            }
            left -= batch.len();
            for held in batch {
                if begun.elapsed() > INJECTING {
                    // This connection continues with its next retransmission.
                    self.not_injected += 1;
                    continue;
                }
                let connection = held.syn.connection();
                let waited = now.since(held.since);
                match sender.send(&held, now) {
                    Injection::Injected => {
                        self.released.add(&connection);
                        self.longest = self.longest.max(waited);
                    }
                    // A connection that gave up cannot be distinguished from one that the kernel released.
                    Injection::TooLate if self.timed_out => {
                        self.expired.add(&connection);
                        self.longest_expired = self.longest_expired.max(waited);
                    }
                    Injection::TooLate => {}
                    // The start of its wait stays the same.
                    Injection::Skipped => self.copies.put_back(held),
                }
            }
        }
    }

    /// Releases the ports and the connections that wait, and deletes the table.
    ///
    /// # Errors
    /// If ports are still held: the kernel releases them at their deadline.
    pub(in crate::worker) fn release_all(&mut self, netns: &Netns) -> Result<Released, NftError> {
        let ports = self.ports.clone();
        // With more ports, only the table is deleted: a pod can add elements to its own table.
        let still_held = ports.len() > MAX_HELD_PORTS || self.release_ports(netns, &ports).is_err();
        let mut at = self.now();
        // A failure only matters while ports are held.
        let deleted = self.delete();
        // A missing table was deleted by another process, so the kernel's timeout did not release the ports.
        let timed_out = matches!(deleted, Ok(true));
        if still_held {
            // In observe mode the table holds no connections.
            if !self.count_only {
                deleted?;
            }
            at = self.now();
            self.ports.clear();
            self.release_connections(netns);
        }
        Ok(Released { at, timed_out })
    }

    pub(in crate::worker) fn tally(&self, released: &Released) -> Tally {
        let now = self.now();
        let by_kernel = if released.timed_out {
            self.expired.without(&self.released)
        } else {
            0
        };
        let connections = if self.count_only {
            self.counted
        } else {
            self.released.total() + by_kernel
        };
        let longest = match by_kernel {
            0 => self.longest,
            _ => self.longest.max(self.longest_expired),
        };
        let lost = self.copies.dropped() + self.not_injected + u64::from(self.log.dropped());
        Tally {
            connections,
            by_kernel,
            longest,
            ago: now.since(released.at),
            lost: usize::try_from(lost).unwrap_or(usize::MAX),
        }
    }
}
