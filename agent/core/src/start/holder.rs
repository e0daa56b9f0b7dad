//! What the holder answers: one execve waits, all others go at once.

use std::{collections::BTreeMap, time::Duration};

use crate::base::{
    id::{ContainerId, Pid},
    time::Timestamp,
};

/// The containers whose programs cannot be executed unseen. `Exec` is an execve
/// that waits for its answer.
///
/// Of each container only the first execve of its init process is held: that of
/// its app. All others are of the runtime's making (probes, hooks, `kubectl
/// exec`), or come after it.
#[derive(Debug)]
pub struct Holder<Exec> {
    containers: BTreeMap<ContainerId, Marked<Exec>>,
}

#[derive(Debug)]
struct Marked<Exec> {
    limit: Duration,
    /// Its init process, once that is known.
    init: Option<Pid>,
    /// The execve that waits, and since when.
    held: Option<(Exec, Timestamp)>,
}

/// What becomes of an execve.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<Exec> {
    Allow(Exec),
    /// It waits: the start of this container.
    Hold(ContainerId),
}

/// A start that is not held any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Released<Exec> {
    pub container: ContainerId,
    /// The execve that goes on now, and how long it waited.
    pub held: Option<(Exec, Duration)>,
}

impl<Exec> Default for Holder<Exec> {
    fn default() -> Self {
        Self {
            containers: BTreeMap::new(),
        }
    }
}

impl<Exec> Holder<Exec> {
    /// Whether no start is waited for.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Whether the start of this container is waited for or held.
    pub fn has(&self, container: &ContainerId) -> bool {
        self.containers.contains_key(container)
    }

    /// The start of this container is to be held for as long as `limit`.
    pub fn mark(&mut self, container: ContainerId, limit: Duration) {
        let marked = || Marked {
            limit,
            init: None,
            held: None,
        };
        let marked = self.containers.entry(container).or_insert_with(marked);
        marked.limit = limit;
    }

    /// A process executes a file where a container of these lives. `init_of` gives
    /// a container's init process, if it has one already.
    pub fn executes(
        &mut self,
        now: Timestamp,
        pid: Pid,
        exec: Exec,
        mut init_of: impl FnMut(&ContainerId) -> Option<Pid>,
    ) -> Verdict<Exec> {
        let known = self
            .containers
            .iter()
            .find(|(_id, marked)| marked.init == Some(pid));
        let known = known.map(|(id, _marked)| id.clone());
        // A runtime writes down which process it is before it lets it execute
        // anything.
        let found = known.or_else(|| {
            let mut unknown = self
                .containers
                .iter_mut()
                .filter(|(_id, marked)| marked.init.is_none());
            unknown.find_map(|(id, marked)| {
                marked.init = init_of(id);
                (marked.init == Some(pid)).then(|| id.clone())
            })
        });
        let Some((id, marked)) = found.and_then(|id| {
            let marked = self.containers.get_mut(&id)?;
            Some((id, marked))
        }) else {
            return Verdict::Allow(exec);
        };
        if marked.held.is_some() {
            // It waits in another execve: this one is not of its making.
            return Verdict::Allow(exec);
        }
        marked.held = Some((exec, now));
        Verdict::Hold(id)
    }

    /// The start of this container is not to be held any more.
    pub fn release(&mut self, now: Timestamp, container: &ContainerId) -> Option<Released<Exec>> {
        let (container, marked) = self.containers.remove_entry(container)?;
        Some(Released {
            container,
            held: marked.held.map(|(exec, since)| (exec, now.since(since))),
        })
    }

    /// When the next start has waited for as long as it may.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.containers.values().filter_map(Marked::due).min()
    }

    /// Starts that have waited for as long as they may.
    pub fn overdue(&mut self, now: Timestamp) -> Vec<Released<Exec>> {
        let is_due = |marked: &Marked<Exec>| marked.due().is_some_and(|due| due <= now);
        let due = self.containers.iter().filter(|(_id, one)| is_due(one));
        let due: Vec<ContainerId> = due.map(|(id, _marked)| id.clone()).collect();
        due.iter().filter_map(|id| self.release(now, id)).collect()
    }

    /// All starts: nothing is held any more.
    pub fn end(&mut self, now: Timestamp) -> Vec<Released<Exec>> {
        let all: Vec<ContainerId> = self.containers.keys().cloned().collect();
        all.iter().filter_map(|id| self.release(now, id)).collect()
    }
}

impl<Exec> Marked<Exec> {
    fn due(&self) -> Option<Timestamp> {
        let (_exec, since) = self.held.as_ref()?;
        Some(*since + self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: Pid = Pid(700);
    const OTHER: Pid = Pid(701);
    const LIMIT: Duration = Duration::from_secs(30);

    fn id(container: &str) -> ContainerId {
        ContainerId::parse(&container.repeat(12)).unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(Duration::from_secs(seconds))
    }

    /// A holder of `a`, whose init process is [`INIT`].
    fn marked() -> Holder<&'static str> {
        let mut holder = Holder::default();
        holder.mark(id("a"), LIMIT);
        holder
    }

    fn init_of(container: &ContainerId) -> Option<Pid> {
        (*container == id("a")).then_some(INIT)
    }

    #[test]
    fn first_exec_of_the_init_process_waits_and_all_others_go() {
        let mut holder = marked();
        assert!(!holder.is_empty());
        let probe = holder.executes(at(1), OTHER, "probe", |_| None);
        assert_eq!(probe, Verdict::Allow("probe"));
        let hook = holder.executes(at(2), OTHER, "hook", init_of);
        assert_eq!(hook, Verdict::Allow("hook"));
        let start = holder.executes(at(3), INIT, "start", init_of);
        assert_eq!(start, Verdict::Hold(id("a")));
        let other = holder.executes(at(4), INIT, "of a thread", init_of);
        assert_eq!(other, Verdict::Allow("of a thread"));
        let released = holder.release(at(5), &id("a")).unwrap();
        assert_eq!(released.held, Some(("start", Duration::from_secs(2))));
        let after = holder.executes(at(6), INIT, "its interpreter", init_of);
        assert_eq!(after, Verdict::Allow("its interpreter"));
        assert!(holder.is_empty() && holder.release(at(6), &id("a")).is_none());
    }

    #[test]
    fn each_start_is_its_own_container_s() {
        let mut holder = marked();
        holder.mark(id("b"), LIMIT);
        // The runtime has not written down the other one's yet.
        let start = holder.executes(at(1), INIT, "a", init_of);
        assert_eq!(start, Verdict::Hold(id("a")));
        let start = holder.executes(at(1), OTHER, "b", |_| Some(OTHER));
        assert_eq!(start, Verdict::Hold(id("b")));
        assert!(holder.release(at(1), &id("a")).unwrap().held.is_some());
        assert!(!holder.has(&id("a")) && holder.has(&id("b")));
        assert_eq!(holder.end(at(1)).len(), 1);
    }

    #[test]
    fn each_waits_for_its_own_limit_from_its_own_start() {
        let mut holder = marked();
        holder.mark(id("b"), Duration::from_secs(5));
        assert_eq!(holder.next_due(), None);
        let _verdict = holder.executes(at(10), INIT, "a", init_of);
        assert_eq!(holder.next_due(), Some(at(40)));
        let _verdict = holder.executes(at(20), OTHER, "b", |_| Some(OTHER));
        assert_eq!(holder.next_due(), Some(at(25)));
        assert_eq!(holder.overdue(at(24)), []);
        let overdue = holder.overdue(at(26));
        assert_eq!(overdue[0].container, id("b"));
        assert_eq!(overdue[0].held, Some(("b", Duration::from_secs(6))));
        // Another limit counts from the same moment.
        holder.mark(id("a"), Duration::from_secs(12));
        assert_eq!(holder.next_due(), Some(at(22)));
    }
}
