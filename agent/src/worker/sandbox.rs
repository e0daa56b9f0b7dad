//! The holds: one task for each sandbox, which executes the agent's orders in sequence.

use std::{
    collections::HashMap,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::spawn_blocking,
};
use usher_client::error_chain::chain;
use usher_core::{
    base::id::SandboxId,
    hold::{Probe, Remains, Tally, ruleset::Wanted},
    worker::{
        QuarantineReason,
        message::{CALLS, ForgottenTable, Job, JobId, Reply},
    },
};
use usher_sys::net::{netns::Netns, nflog};

use super::{
    hold_table::{HoldTable, NodeCopies},
    lanes::{Kind, Lanes},
    probe::{Load, RunningProbe, Target},
    replies::Replies,
};

/// How long copies are read after the ports are released.
const LATE_COPIES: Duration = Duration::from_millis(20);
/// Delay after a flood of copies. Copies that do not fit in the buffer are lost, and their connections continue with
/// the next retransmission.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the adoption of a table waits for the exit of an earlier worker, which still has the sockets of the hold.
const ADOPTING: Duration = Duration::from_secs(1);
/// The wait between two attempts.
const ADOPT_AGAIN: Duration = Duration::from_millis(50);
const LOST: &str = "the worker lost the sockets of the hold";

/// The sandboxes that the agent has sent orders for.
#[derive(Debug)]
pub(super) struct Sandboxes {
    tasks: HashMap<SandboxId, UnboundedSender<(JobId, Job)>>,
    lanes: Lanes,
    replies: Replies,
    load: Load,
    copies: NodeCopies,
    started: Instant,
}

struct Sandbox {
    id: SandboxId,
    started: Instant,
    /// The sandbox's namespace, and the limits of its system calls.
    place: Target,
    load: Load,
    copies: NodeCopies,
    table: Option<HoldTable>,
    probes: HashMap<Probe, RunningProbe>,
    /// Whether the pod's own rules are too costly.
    is_costly: bool,
    is_reported: bool,
}

impl Sandboxes {
    pub(super) fn new(lanes: Lanes, replies: Replies) -> Self {
        Self {
            tasks: HashMap::new(),
            lanes,
            replies,
            load: Load::default(),
            copies: NodeCopies::default(),
            started: Instant::now(),
        }
    }

    /// Passes an order to the task of its sandbox. The first order of a sandbox carries its namespace.
    pub(super) async fn order(
        &mut self,
        id: JobId,
        sandbox: SandboxId,
        job: Job,
        netns: Option<Arc<Netns>>,
    ) {
        let is_forget = matches!(job, Job::Forget { .. });
        self.tasks.retain(|_sandbox, orders| !orders.is_closed());
        if !self.tasks.contains_key(&sandbox) {
            let Some(netns) = netns else {
                return self.without_task(id, sandbox, job).await;
            };
            let lane = self.lanes.lane(netns.id());
            // The number of the namespace may be that of an earlier one.
            lane.rules.clear();
            let task = Sandbox {
                id: sandbox.clone(),
                started: self.started,
                place: Target {
                    lane,
                    netns,
                    lanes: self.lanes.clone(),
                    replies: self.replies.clone(),
                },
                load: self.load.clone(),
                copies: self.copies.clone(),
                table: None,
                probes: HashMap::new(),
                is_costly: false,
                is_reported: false,
            };
            let (orders, receiver) = unbounded_channel();
            tokio::spawn(task.run(receiver));
            self.tasks.insert(sandbox.clone(), orders);
        }
        if let Some(orders) = self.tasks.get(&sandbox) {
            // Fails only when the task has panicked.
            drop(orders.send((id, job)));
        }
        if is_forget {
            self.tasks.remove(&sandbox);
        }
    }

    /// Replies to an order for a sandbox in which nothing is held.
    async fn without_task(&self, id: JobId, sandbox: SandboxId, job: Job) {
        let reply = match job {
            Job::ReleaseAll { .. } => Reply::Released {
                sandbox,
                result: Ok(Tally::default()),
            },
            Job::Forget { .. } => return,
            _ => Reply::Done { id },
        };
        self.replies.send(reply).await;
    }
}

impl Sandbox {
    async fn run(mut self, mut orders: UnboundedReceiver<(JobId, Job)>) {
        let table = loop {
            let order = match &mut self.table {
                None => orders.recv().await,
                Some(table) => tokio::select! {
                    biased;
                    order = orders.recv() => order,
                    read = table.receive_copies() => {
                        self.read(read).await;
                        self.report_quarantine().await;
                        continue;
                    }
                },
            };
            match order {
                Some((_id, Job::Forget { table, .. })) => break table,
                Some((id, job)) => {
                    self.execute(id, job).await;
                    self.report_quarantine().await;
                }
                // The worker is shutting down. Its successor adopts the table.
                None => return,
            }
        };
        self.probes.clear();
        match table {
            ForgottenTable::Kept => {}
            ForgottenTable::LeftoverDeleted if self.table.is_none() => self.delete_leftover().await,
            ForgottenTable::Deleted | ForgottenTable::LeftoverDeleted => {
                self.change(|table, _netns| drop(table.delete())).await;
            }
        }
        self.close().await;
    }

    async fn read(&mut self, read: Result<bool, nflog::Error>) {
        match read {
            Ok(false) => {}
            // Lets the tasks of other pods run.
            Ok(true) => tokio::time::sleep(PAUSE).await,
            Err(error) => {
                tracing::warn!(sandbox = %self.id, error = %chain(&error), "could not read the copies of waiting connections; released the sandbox");
                self.release_all().await;
            }
        }
    }

    async fn execute(&mut self, id: JobId, job: Job) {
        match job {
            Job::Arm { wanted, .. } => {
                let result = self.arm(wanted).await;
                let is_armed = result.is_ok();
                self.reply(Reply::Armed { id, result }).await;
                if is_armed {
                    self.change(HoldTable::open_sender).await;
                }
            }
            Job::Adopt { .. } => {
                let result = self.adopt().await;
                self.reply(Reply::Adopted { id, result }).await;
                self.change(HoldTable::open_sender).await;
            }
            Job::Probe { probe, .. } => self.probe(id, probe),
            Job::ReleasePorts { ports, .. } => {
                let released = self
                    .change(move |table, netns| table.release_ports(netns, &ports))
                    .await;
                // If a port cannot be released, deleting the table releases all ports.
                if matches!(released, Some(Err(_))) {
                    self.release_all().await;
                }
                self.reply(Reply::Done { id }).await;
            }
            Job::ReleaseAll { .. } => self.release_all().await,
            Job::Renew { ports, timeout, .. } => {
                self.change(move |table, _netns| table.renew(&ports, timeout))
                    .await;
                self.reply(Reply::Done { id }).await;
            }
            Job::Repair { wanted, .. } => {
                self.change(move |table, _netns| table.repair(&wanted))
                    .await;
                self.reply(Reply::Done { id }).await;
            }
            // Not about a sandbox, or handled before.
            Job::Check
            | Job::Request { .. }
            | Job::Query(_)
            | Job::Signal { .. }
            | Job::SampleTraffic { .. }
            | Job::Forget { .. } => {}
        }
    }

    /// Called after the reply to the order, because the agent then fails the remaining jobs of the namespace.
    async fn report_quarantine(&mut self) {
        if self.is_costly && !mem::replace(&mut self.is_reported, true) {
            let Target { lane, lanes, .. } = &self.place;
            lanes
                .report_quarantine(lane.netns, QuarantineReason::CostlyRules)
                .await;
        }
    }

    fn probe(&mut self, id: JobId, probe: Probe) {
        let running = RunningProbe::start(id, self.place.clone(), probe.clone(), &self.load);
        // Stops an earlier one, whose reply the agent no longer expects.
        self.probes.insert(probe, running);
    }

    async fn arm(&mut self, wanted: Wanted) -> Result<(), String> {
        self.probes.clear();
        let (netns, started) = (Arc::clone(&self.place.netns), self.started);
        let (copies, lane) = (self.copies.of(&self.id), Arc::clone(&self.place.lane));
        let armed = self.run_calls(move || HoldTable::arm(&netns, &wanted, started, copies, lane));
        let armed = armed.await.ok_or(LOST)?;
        self.table = Some(armed.map_err(|error| chain(&error))?);
        Ok(())
    }

    async fn adopt(&mut self) -> Result<Option<Remains>, String> {
        if let Some(table) = &self.table {
            // Armed after the end of the earlier worker, whose tables this job is for.
            return Ok(Some(table.remains()));
        }
        let begun = Instant::now();
        let adopted = loop {
            let may_retry = begun.elapsed() < ADOPTING;
            let (netns, started) = (Arc::clone(&self.place.netns), self.started);
            let (copies, lane) = (self.copies.of(&self.id), Arc::clone(&self.place.lane));
            let calls = move || HoldTable::adopt(&netns, started, copies, lane, may_retry);
            match self.run_calls(calls).await.ok_or(LOST)? {
                Err(error) if may_retry && error.may_be_in_use() => {
                    tokio::time::sleep(ADOPT_AGAIN).await;
                }
                adopted => break adopted.map_err(|error| chain(&error))?,
            }
        };
        let Some((table, remains)) = adopted else {
            return Ok(None);
        };
        self.table = Some(table);
        Ok(Some(remains))
    }

    /// Deletes a table that an earlier job may have left. Its copies were lost with that job.
    async fn delete_leftover(&self) {
        let netns = Arc::clone(&self.place.netns);
        let deleted = self
            .run_calls(move || HoldTable::delete_leftover(&netns))
            .await;
        let failed = match deleted {
            Some(Ok(_)) => return,
            Some(Err(error)) => chain(&error),
            None => LOST.to_owned(),
        };
        tracing::warn!(sandbox = %self.id, error = failed, "could not delete a leftover table; its ports are released at their deadline");
    }

    /// Releases everything and reports it. Succeeds without a table.
    async fn release_all(&mut self) {
        self.probes.clear();
        let result = match self.table.is_some() {
            true => self.release().await,
            false => Ok(Tally::default()),
        };
        // Close the sockets before the reply, after which the engine may arm the sandbox again.
        self.close().await;
        let sandbox = self.id.clone();
        self.reply(Reply::Released { sandbox, result }).await;
    }

    /// Closes the sockets of the table on another thread. Closing waits until the kernel has removed the table, and
    /// thus until every processor has left the kernel
    /// ([`nft_rcv_nl_event`](https://github.com/torvalds/linux/blob/v6.12/net/netfilter/nf_tables_api.c)). Another pod
    /// can delay that for seconds, so it continues beyond the limit of a change: the agent would take the worker for
    /// one that hangs.
    #[expect(
        clippy::disallowed_methods,
        reason = "the pool's threads are meant to outlive the work"
    )]
    async fn close(&mut self) {
        let table = mem::take(&mut self.table);
        let closed = spawn_blocking(move || drop(table));
        drop(tokio::time::timeout(CALLS, closed).await);
    }

    async fn release(&mut self) -> Result<Tally, String> {
        let released = self.change(HoldTable::release_all).await;
        let released = released.ok_or(LOST)?.map_err(|error| chain(&error))?;
        // For connection attempts that were in flight during the release of the ports.
        let end = tokio::time::sleep(LATE_COPIES);
        tokio::pin!(end);
        loop {
            let table = self.table.as_mut().ok_or(LOST)?;
            tokio::select! {
                biased;
                () = &mut end => return Ok(table.tally(&released)),
                read = table.receive_copies() => if read.is_err() {
                    return Ok(table.tally(&released));
                },
            }
            self.change(HoldTable::release_connections).await;
        }
    }

    /// Runs system calls with the table; None without one.
    async fn change<T: Send + 'static>(
        &mut self,
        change: impl FnOnce(&mut HoldTable, &Netns) -> T + Send + 'static,
    ) -> Option<T> {
        let mut table = self.table.take()?;
        let netns = Arc::clone(&self.place.netns);
        let calls = self.run_calls(move || {
            let done = change(&mut table, &netns);
            (table, done)
        });
        let (table, done) = calls.await?;
        self.is_costly |= table.is_costly();
        self.table = Some(table);
        Some(done)
    }

    async fn run_calls<T: Send + 'static>(
        &self,
        calls: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let Target { lane, lanes, .. } = &self.place;
        lanes.run(lane, Kind::Change, CALLS, calls).await
    }

    async fn reply(&self, reply: Reply) {
        self.place.replies.send(reply).await;
    }
}

#[cfg(test)]
mod tests;
