//! Opening a gate: doors, then what waits at them, then the table.

use std::time::Duration;

use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    base::time::Timestamp,
    hold::{Tally, syn::Syn},
};
use usher_sys::net::nft::{self, NftError};

use super::{Gate, sender::Sent};

/// How long copies are read after the doors are open.
const LINGER: Duration = Duration::from_millis(20);

/// Doors that are opened one by one before the table goes. A pod that puts more into its own table waits as long as the
/// table takes.
const DOORS: usize = 64;

impl Gate {
    pub(super) fn open_some(&mut self, ports: &[u16]) -> Result<(), NftError> {
        let opened = nft::delete_elements(&self.table, ports);
        match &opened {
            Ok(were_shut) => {
                self.timed_out |= !were_shut;
                self.ports.retain(|port| !ports.contains(port));
            }
            Err(error) => {
                tracing::warn!(error = %chain(error), ?ports, "could not open doors; they open with the table, or at the deadline");
            }
        }
        crash_point::reach("doors-open", "");
        self.let_go();
        opened.map(drop)
    }

    /// Reads what has come without waiting.
    fn read(&mut self) {
        let now = Timestamp::new(self.begin.elapsed());
        let mut arrived = Vec::new();
        let read = self
            .log
            .drain(|packet| arrived.extend(Syn::parse(packet.payload).ok()));
        if let Err(error) = read {
            tracing::debug!(error = %chain(&error), "could not read the copies of waiting connections");
        }
        for syn in arrived {
            self.came(syn, now);
        }
    }

    /// Sends the copies of connections that still wait. One that waits at
    /// another door is copied, and waits, again.
    fn let_go(&mut self) {
        self.read();
        if let Some(queue) = &self.queue
            && let Err(error) = queue.accept_all()
        {
            tracing::warn!(error = %chain(&error), "could not let DNS queries go; they are asked again");
        }
        let now = Timestamp::new(self.begin.elapsed());
        let Some(sender) = &mut self.sender else {
            return;
        };
        for held in self.copies.take() {
            let connection = held.syn.connection();
            match sender.send(&held, now) {
                Sent::Out => self.released.insert(connection),
                // Those that gave up in time cannot be told from those that went.
                Sent::Late if self.timed_out => self.gone.insert(connection),
                Sent::Late | Sent::Not => continue,
            };
            let first = self.first.get_or_insert(held.since);
            *first = held.since.min(*first);
        }
    }

    /// # Errors
    /// When doors are still shut: the kernel opens them at the deadline.
    pub(super) async fn open_all(&mut self) -> Result<Tally, NftError> {
        let ports = self.ports.clone();
        let still_shut = ports.len() > DOORS || self.open_some(&ports).is_err();
        let mut opened = Timestamp::new(self.begin.elapsed());
        // Without doors that are shut it holds nobody.
        let deleted = self.delete();
        // Whoever deletes a table opens its doors as well, and is not the kernel.
        let timed_out = matches!(deleted, Ok(true));
        if still_shut {
            // Nor does one that only counts.
            if !self.count_only {
                deleted?;
            }
            opened = Timestamp::new(self.begin.elapsed());
            self.let_go();
        }
        self.linger().await;
        let now = Timestamp::new(self.begin.elapsed());
        let gone = self.gone.difference(&self.released);
        let by_kernel = if timed_out { gone.count() } else { 0 };
        let connections = if self.count_only {
            self.counted
        } else {
            self.released.len() + by_kernel
        };
        let waited = self.first.filter(|_| connections > 0);
        let lost = self.copies.dropped() + u64::from(self.log.dropped());
        Ok(Tally {
            connections,
            by_kernel,
            longest: waited.map_or(Duration::ZERO, |first| opened.since(first)),
            ago: now.since(opened),
            lost: usize::try_from(lost).unwrap_or(usize::MAX),
        })
    }

    /// Lets go what was on its way when the doors were opened.
    async fn linger(&mut self) {
        let end = tokio::time::sleep(LINGER);
        tokio::pin!(end);
        loop {
            let mut arrived = Vec::new();
            let read = self
                .log
                .receive(|packet| arrived.extend(Syn::parse(packet.payload).ok()));
            tokio::select! {
                biased;
                () = &mut end => return,
                read = read => if read.is_err() { return },
            }
            let now = Timestamp::new(self.begin.elapsed());
            for syn in arrived {
                self.came(syn, now);
            }
            self.let_go();
        }
    }
}
