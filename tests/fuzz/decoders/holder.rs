//! A stream of execs, with orders between them: three bytes are one event.

use std::{collections::BTreeSet, time::Duration};

use usher_core::{
    base::{
        id::{ContainerId, Pid},
        time::Timestamp,
    },
    start::{Holder, Release, Verdict},
};

const CONTAINERS: u8 = 4;
const PIDS: u8 = 8;

/// Everything that the holder observes.
#[derive(Default)]
struct World {
    holder: Holder<u32>,
    now: Timestamp,
    /// The init pid that the runtime wrote into each bundle.
    inits: [Option<Pid>; CONTAINERS as usize],
    execs: u32,
    /// Execs without a reply.
    waiting: BTreeSet<u32>,
}

fn id(container: u8) -> ContainerId {
    ContainerId::parse(&format!("{container:0>12}")).expect("an id")
}

fn init_of(inits: &[Option<Pid>; CONTAINERS as usize], marked: &ContainerId) -> Option<Pid> {
    let place = (0..CONTAINERS).find(|container| id(*container) == *marked);
    inits[usize::from(place.expect("one that was marked"))]
}

/// Every exec gets one reply, and is held only if it is its container's
/// start.
pub(crate) fn execs_and_orders(bytes: &[u8]) -> bool {
    let mut world = World::default();
    for event in bytes.chunks_exact(3) {
        let &[what, container, value] = event else {
            continue;
        };
        world.take(what, container % CONTAINERS, value);
    }
    let now = world.now;
    for released in world.holder.end(now) {
        world.gone(&released);
    }
    assert!(
        world.waiting.is_empty(),
        "{:?} wait for ever",
        world.waiting
    );
    assert!(world.holder.is_empty() && world.holder.next_due().is_none());
    world.execs > 0
}

impl World {
    fn take(&mut self, what: u8, container: u8, value: u8) {
        match what % 6 {
            0 => {
                let limit = Duration::from_millis(value.into());
                self.holder.mark(id(container), limit);
            }
            1 => self.executes(Pid(i32::from(value % PIDS))),
            2 => {
                let released = self.holder.release(self.now, &id(container));
                assert!(!self.holder.has(&id(container)));
                if let Some(released) = released {
                    self.gone(&released);
                }
            }
            3 => {
                self.now = self.now + Duration::from_millis(value.into());
                for overdue in self.holder.overdue(self.now) {
                    self.gone(&overdue);
                }
                assert!(self.holder.next_due().is_none_or(|due| due > self.now));
            }
            4 => self.denied(container, value),
            // A container has one init process, which belongs to no other container.
            _ => {
                let pid = Some(Pid(i32::from(value % PIDS)));
                if !self.inits.contains(&pid) {
                    self.inits[usize::from(container)] = pid;
                }
            }
        }
    }

    /// A denied exec ends no hold.
    fn denied(&mut self, container: u8, value: u8) {
        let pid = (container != 0).then_some(Pid(i32::from(value % PIDS)));
        let all = || (0..CONTAINERS).map(id);
        let held: Vec<ContainerId> = all().filter(|id| self.holder.is_held(id)).collect();
        let inits = self.inits;
        if let Some(denied) = self.holder.denied(pid, |id| init_of(&inits, id)) {
            assert!(!held.contains(&denied) && !self.holder.has(&denied));
        }
        assert!(held.iter().all(|id| self.holder.is_held(id)));
    }

    fn executes(&mut self, pid: Pid) {
        self.execs += 1;
        let exec = self.execs;
        let inits = self.inits;
        let init_of = |id: &ContainerId| init_of(&inits, id);
        match self.holder.executes(self.now, pid, exec, init_of) {
            Verdict::Allow(allowed) => assert_eq!(allowed, exec),
            Verdict::Hold(container) => {
                assert!(self.holder.has(&container));
                self.waiting.insert(exec);
            }
        }
    }

    fn gone(&mut self, released: &Release<u32>) {
        if let Some((exec, _held)) = &released.held {
            assert!(self.waiting.remove(exec), "answered twice");
        }
    }
}
