//! What the holder replies to processes that open a container's runtime state: the first stop signal waits, all other
//! commands continue at once.

use std::{collections::BTreeMap, time::Duration};

use super::StopCommand;
use crate::{
    base::{id::ContainerId, time::Timestamp},
    start::{Released, Verdict},
};

/// The armed containers. `Open` is an open that waits for its reply.
#[derive(Debug)]
pub struct StopGate<Open> {
    containers: BTreeMap<ContainerId, Armed<Open>>,
}

#[derive(Debug)]
struct Armed<Open> {
    limit: Duration,
    /// The waiting open, and since when it waits.
    held: Option<(Open, Timestamp)>,
}

impl<Open> Default for StopGate<Open> {
    fn default() -> Self {
        Self {
            containers: BTreeMap::new(),
        }
    }
}

impl<Open> StopGate<Open> {
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    pub fn is_held(&self, container: &ContainerId) -> bool {
        let armed = self.containers.get(container);
        armed.is_some_and(|armed| armed.held.is_some())
    }

    /// Holds the first stop signal of this container from now on, for at most `limit`.
    pub fn arm(&mut self, container: ContainerId, limit: Duration) {
        let armed = || Armed { limit, held: None };
        self.containers.entry(container).or_insert_with(armed).limit = limit;
    }

    /// A process with this command line opens the state of a container.
    pub fn opens(&mut self, now: Timestamp, command_line: &[u8], open: Open) -> Verdict<Open> {
        let Some(StopCommand { container }) = StopCommand::parse(command_line) else {
            return Verdict::Allow(open);
        };
        match self.containers.get_mut(&container) {
            Some(armed) if armed.held.is_none() => {
                armed.held = Some((open, now));
                Verdict::Hold(container)
            }
            _ => Verdict::Allow(open),
        }
    }

    pub fn release(&mut self, now: Timestamp, container: &ContainerId) -> Option<Released<Open>> {
        let (container, armed) = self.containers.remove_entry(container)?;
        Some(Released {
            container,
            held: armed.held.map(|(open, since)| (open, now.since(since))),
        })
    }

    /// When the next stop signal reaches its limit.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.containers.values().filter_map(Armed::due).min()
    }

    /// Releases the stop signals that have reached their limit.
    pub fn overdue(&mut self, now: Timestamp) -> Vec<Released<Open>> {
        let due: Vec<ContainerId> = self
            .containers
            .iter()
            .filter(|(_id, armed)| armed.due().is_some_and(|due| due <= now))
            .map(|(id, _armed)| id.clone())
            .collect();
        due.iter().filter_map(|id| self.release(now, id)).collect()
    }

    /// Releases all stop signals.
    pub fn end(&mut self, now: Timestamp) -> Vec<Released<Open>> {
        let all: Vec<ContainerId> = self.containers.keys().cloned().collect();
        all.iter().filter_map(|id| self.release(now, id)).collect()
    }
}

impl<Open> Armed<Open> {
    fn due(&self) -> Option<Timestamp> {
        let (_open, since) = self.held.as_ref()?;
        Some(*since + self.limit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn id(digit: u8) -> ContainerId {
        ContainerId::parse(&format!("{digit:064}")).unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(Duration::from_secs(seconds))
    }

    fn kill(container: &ContainerId, signal: &str) -> Vec<u8> {
        format!("runc\0kill\0{container}\0{signal}\0").into_bytes()
    }

    #[test]
    fn first_stop_signal_waits_and_all_others_continue() {
        let mut gate = StopGate::default();
        let (one, two, other) = (id(1), id(2), id(3));
        gate.arm(one.clone(), LIMIT);
        gate.arm(two.clone(), LIMIT);
        let state = format!("runc\0state\0{one}\0").into_bytes();
        assert_eq!(gate.opens(at(0), &state, 0), Verdict::Allow(0));
        assert_eq!(gate.opens(at(0), &kill(&one, "9"), 1), Verdict::Allow(1));
        assert_eq!(gate.opens(at(0), &kill(&other, "15"), 2), Verdict::Allow(2));
        assert_eq!(
            gate.opens(at(1), &kill(&one, "15"), 3),
            Verdict::Hold(one.clone())
        );
        assert!(gate.is_held(&one) && !gate.is_held(&two));
        // A second one, as after a restart of the runtime.
        assert_eq!(gate.opens(at(2), &kill(&one, "15"), 4), Verdict::Allow(4));
        assert_eq!(gate.opens(at(2), &kill(&one, "KILL"), 5), Verdict::Allow(5));
        assert_eq!(
            gate.opens(at(3), &kill(&two, "QUIT"), 6),
            Verdict::Hold(two.clone())
        );
        let released = gate.release(at(5), &one).unwrap();
        assert_eq!(released.held, Some((3, Duration::from_secs(4))));
        assert_eq!(gate.next_due(), Some(at(33)));
        assert!(gate.overdue(at(32)).is_empty());
        let overdue = gate.overdue(at(33));
        assert_eq!(overdue[0].held, Some((6, LIMIT)));
        assert!(gate.is_empty());
    }

    #[test]
    fn end_releases_everything() {
        let mut gate = StopGate::default();
        gate.arm(id(1), LIMIT);
        gate.arm(id(2), LIMIT);
        gate.opens(at(0), &kill(&id(1), "15"), 1);
        assert_eq!(gate.end(at(1)).len(), 2);
        assert!(gate.is_empty() && gate.next_due().is_none());
    }

    proptest! {
        /// Every open is allowed at once or released later, exactly once, and none waits beyond its limit.
        #[test]
        fn every_open_is_answered_once(
            events in prop::collection::vec((0..3_u8, 0..6_u8, 0..20_u64), 0..100)
        ) {
            let mut gate = StopGate::default();
            let (mut opened, mut answered) = (Vec::new(), Vec::new());
            let mut now = at(0);
            for (number, (container, what, wait)) in events.into_iter().enumerate() {
                now = now + Duration::from_secs(wait);
                let container = id(container);
                let overdue = gate.overdue(now);
                prop_assert!(gate.next_due().is_none_or(|due| due > now));
                answered.extend(overdue.into_iter().filter_map(|one| one.held).map(|held| held.0));
                match what {
                    0 => gate.arm(container, LIMIT),
                    1 => answered.extend(gate.release(now, &container).and_then(|one| one.held).map(|held| held.0)),
                    signal => {
                        opened.push(number);
                        let signal = if signal == 2 { "9" } else { "15" };
                        match gate.opens(now, &kill(&container, signal), number) {
                            Verdict::Allow(open) => answered.push(open),
                            Verdict::Hold(_) => prop_assert_eq!(signal, "15"),
                        }
                    }
                }
            }
            answered.extend(gate.end(now).into_iter().filter_map(|one| one.held).map(|held| held.0));
            answered.sort_unstable();
            prop_assert_eq!(opened, answered);
        }
    }
}
