//! The decisions of the holder: in each container one exec, or one stop signal, waits; all others continue at once.

use std::{collections::BTreeMap, time::Duration};

use crate::base::{
    id::{ContainerId, Pid},
    time::Timestamp,
};

/// The marked containers. `Exec` is what waits for its reply: an exec, or the open by a command that sends a stop signal.
///
/// In each container only the first exec of the init process is held: that of its app. All others are the runtime's
/// (probes, hooks, `kubectl exec`), or follow it.
#[derive(Debug)]
pub struct Holder<Exec> {
    containers: BTreeMap<ContainerId, Marked<Exec>>,
}

#[derive(Debug)]
struct Marked<Exec> {
    limit: Duration,
    /// None until it is known.
    init: Option<Pid>,
    /// The waiting exec, and since when it waits.
    held: Option<(Exec, Timestamp)>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<Exec> {
    Allow(Exec),
    /// The exec waits, because it is the first of this container.
    Hold(ContainerId),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Release<Exec> {
    pub container: ContainerId,
    /// The exec that continues now, and how long it waited.
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
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    pub fn has(&self, container: &ContainerId) -> bool {
        self.containers.contains_key(container)
    }

    pub fn is_held(&self, container: &ContainerId) -> bool {
        let marked = self.containers.get(container);
        marked.is_some_and(|marked| marked.held.is_some())
    }

    /// Holds the start of this container from now on, for at most `limit`.
    pub fn mark(&mut self, container: ContainerId, limit: Duration) {
        let marked = || Marked {
            limit,
            init: None,
            held: None,
        };
        let marked = self.containers.entry(container).or_insert_with(marked);
        marked.limit = limit;
    }

    /// A process executes a file of a marked container. `init_of` returns the init process of a container, if it
    /// exists.
    pub fn executes(
        &mut self,
        now: Timestamp,
        pid: Pid,
        exec: Exec,
        init_of: impl FnMut(&ContainerId) -> Option<Pid>,
    ) -> Verdict<Exec> {
        let Some(id) = self.container_of(pid, init_of) else {
            return Verdict::Allow(exec);
        };
        // While the start is held, an exec is from another thread.
        self.hold(now, id, exec)
    }

    /// Holds the first exec of a marked container.
    pub fn hold(&mut self, now: Timestamp, id: ContainerId, exec: Exec) -> Verdict<Exec> {
        match self.containers.get_mut(&id) {
            Some(marked) if marked.held.is_none() => {
                marked.held = Some((exec, now));
                Verdict::Hold(id)
            }
            _ => Verdict::Allow(exec),
        }
    }

    /// The kernel denied an exec that it could not report. Returns the container of the exec, which is no longer
    /// marked; None where the container is unknown.
    ///
    /// A held start has no mark, so the exec is one of a container that has not started. Without a pid, or with that of
    /// another process than an init process, the container is known if there is only one.
    pub fn denied(
        &mut self,
        pid: Option<Pid>,
        init_of: impl FnMut(&ContainerId) -> Option<Pid>,
    ) -> Option<ContainerId> {
        let by_pid = pid.and_then(|pid| self.container_of(pid, init_of));
        let id = by_pid.or_else(|| self.only_unstarted())?;
        if self.is_held(&id) {
            return None;
        }
        self.containers.remove(&id);
        Some(id)
    }

    fn only_unstarted(&self) -> Option<ContainerId> {
        let mut unstarted = self
            .containers
            .iter()
            .filter(|(_id, marked)| marked.held.is_none());
        let (id, _marked) = unstarted.next()?;
        unstarted.next().is_none().then(|| id.clone())
    }

    /// The container with this init process. The runtime writes the pid to a file before the process executes
    /// anything.
    fn container_of(
        &mut self,
        pid: Pid,
        mut init_of: impl FnMut(&ContainerId) -> Option<Pid>,
    ) -> Option<ContainerId> {
        let known = self
            .containers
            .iter()
            .find(|(_id, marked)| marked.init == Some(pid))
            .map(|(id, _marked)| id.clone());
        known.or_else(|| {
            self.containers
                .iter_mut()
                .filter(|(_id, marked)| marked.init.is_none())
                .find_map(|(id, marked)| {
                    marked.init = init_of(id);
                    (marked.init == Some(pid)).then(|| id.clone())
                })
        })
    }

    pub fn release(&mut self, now: Timestamp, container: &ContainerId) -> Option<Release<Exec>> {
        let (container, marked) = self.containers.remove_entry(container)?;
        Some(Release {
            container,
            held: marked.held.map(|(exec, since)| (exec, now.since(since))),
        })
    }

    /// When the next start reaches its limit.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.containers.values().filter_map(Marked::due).min()
    }

    /// Releases the starts that have reached their limit.
    pub fn overdue(&mut self, now: Timestamp) -> Vec<Release<Exec>> {
        let due: Vec<ContainerId> = self
            .containers
            .iter()
            .filter(|(_id, marked)| marked.due().is_some_and(|due| due <= now))
            .map(|(id, _marked)| id.clone())
            .collect();
        due.iter().filter_map(|id| self.release(now, id)).collect()
    }

    pub fn end(&mut self, now: Timestamp) -> Vec<Release<Exec>> {
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
    use proptest::prelude::*;

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
    fn only_the_first_exec_of_the_init_process_waits() {
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
        // The runtime has not written the pid of the other one yet.
        let start = holder.executes(at(1), INIT, "a", init_of);
        assert_eq!(start, Verdict::Hold(id("a")));
        let start = holder.executes(at(1), OTHER, "b", |_| Some(OTHER));
        assert_eq!(start, Verdict::Hold(id("b")));
        assert!(holder.release(at(1), &id("a")).unwrap().held.is_some());
        assert!(!holder.has(&id("a")) && holder.has(&id("b")));
        assert_eq!(holder.end(at(1)).len(), 1);
    }

    #[test]
    fn each_start_waits_for_its_own_limit() {
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

    #[test]
    fn denied_exec_of_an_init_process_costs_its_own_container_s_hold() {
        let mut holder = marked();
        holder.mark(id("b"), LIMIT);
        assert_eq!(holder.denied(Some(INIT), init_of), Some(id("a")));
        assert!(!holder.has(&id("a")) && holder.has(&id("b")));
        let start = holder.executes(at(1), OTHER, "b", |_| Some(OTHER));
        assert_eq!(start, Verdict::Hold(id("b")));
    }

    #[test]
    fn container_of_a_denied_exec_is_unknown_if_there_are_several() {
        let mut holder = marked();
        holder.mark(id("b"), LIMIT);
        assert_eq!(holder.denied(None, init_of), None);
        assert_eq!(holder.denied(Some(OTHER), init_of), None);
        assert!(holder.has(&id("a")) && holder.has(&id("b")));
        let _verdict = holder.executes(at(1), INIT, "a", init_of);
        assert_eq!(holder.denied(None, init_of), Some(id("b")));
    }

    #[test]
    fn denied_exec_releases_no_held_start() {
        let mut holder = marked();
        let _verdict = holder.executes(at(1), INIT, "start", init_of);
        for pid in [None, Some(INIT), Some(OTHER)] {
            assert_eq!(holder.denied(pid, init_of), None);
        }
        assert!(holder.is_held(&id("a")));
    }

    #[test]
    fn first_stop_signal_of_each_marked_container_waits() {
        let mut holder = marked();
        holder.mark(id("b"), LIMIT);
        let other = holder.hold(at(0), id("c"), "not marked");
        assert_eq!(other, Verdict::Allow("not marked"));
        let first = holder.hold(at(1), id("a"), "a");
        assert_eq!(first, Verdict::Hold(id("a")));
        assert!(holder.is_held(&id("a")) && !holder.is_held(&id("b")));
        // A second one, as after a restart of the runtime.
        let second = holder.hold(at(2), id("a"), "again");
        assert_eq!(second, Verdict::Allow("again"));
        let first = holder.hold(at(3), id("b"), "b");
        assert_eq!(first, Verdict::Hold(id("b")));
        let released = holder.release(at(5), &id("a")).unwrap();
        assert_eq!(released.held, Some(("a", Duration::from_secs(4))));
        assert_eq!(holder.next_due(), Some(at(33)));
        assert!(holder.overdue(at(32)).is_empty());
        assert_eq!(holder.overdue(at(33))[0].held, Some(("b", LIMIT)));
        assert!(holder.is_empty() && holder.next_due().is_none());
    }

    #[test]
    fn end_releases_everything() {
        let mut holder = marked();
        holder.mark(id("b"), LIMIT);
        let _verdict = holder.hold(at(0), id("a"), "a");
        assert_eq!(holder.end(at(1)).len(), 2);
        assert!(holder.is_empty() && holder.next_due().is_none());
    }

    proptest! {
        /// Everything is allowed at once or released later, exactly once, and nothing waits beyond its limit.
        #[test]
        fn everything_is_answered_once(
            events in prop::collection::vec((0..3_usize, 0..4_u8, 0..20_u64), 0..100)
        ) {
            let mut holder = Holder::default();
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            let mut now = at(0);
            for (number, (container, what, wait)) in events.into_iter().enumerate() {
                now = now + Duration::from_secs(wait);
                let container = id(["a", "b", "c"][container]);
                let overdue = holder.overdue(now);
                prop_assert!(holder.next_due().is_none_or(|due| due > now));
                answered.extend(overdue.into_iter().filter_map(|one| one.held).map(|held| held.0));
                match what {
                    0 => holder.mark(container, LIMIT),
                    1 => answered.extend(
                        holder.release(now, &container).and_then(|one| one.held).map(|held| held.0),
                    ),
                    _ => {
                        asked.push(number);
                        if let Verdict::Allow(one) = holder.hold(now, container, number) {
                            answered.push(one);
                        }
                    }
                }
            }
            answered.extend(holder.end(now).into_iter().filter_map(|one| one.held).map(|held| held.0));
            answered.sort_unstable();
            prop_assert_eq!(asked, answered);
        }
    }
}
