//! An attack and the same node without it, and the limits.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use usher_tests::isolation::{Attack, Figures};
use usher_tests::wait::slower;

/// A limit is at least this multiple of the time without an attack.
const NOISE: u32 = 4;

/// A measured time: its name, its budget on a machine with a free processor, and its limit. The limit is at least five
/// times the time on a machine that compiles and runs a cluster as well.
struct Time {
    what: &'static str,
    budget: Option<Duration>,
    limit: Duration,
    of: fn(&Figures) -> Duration,
}

const TIMES: [Time; 8] = [
    Time {
        what: "quit of another pod",
        budget: Some(Duration::from_millis(50)),
        limit: Duration::from_millis(500),
        of: |figures| longest(&figures.during.quits),
    },
    Time {
        what: "ADD of another pod",
        budget: Some(Duration::from_millis(20)),
        limit: Duration::from_millis(200),
        of: |figures| longest(&figures.during.adds),
    },
    Time {
        what: "response of /healthz",
        budget: Some(Duration::from_millis(100)),
        limit: Duration::from_millis(500),
        of: |figures| longest(&figures.health),
    },
    Time {
        what: "end of the agent after SIGKILL",
        budget: Some(Duration::from_millis(100)),
        limit: Duration::from_millis(500),
        of: |figures| figures.death,
    },
    Time {
        what: "start of the next agent",
        budget: Some(Duration::from_secs(2)),
        limit: Duration::from_secs(5),
        of: |figures| figures.start,
    },
    // The next agent still reads the node when the pods finish and start.
    Time {
        what: "quit of another pod by the next agent",
        budget: None,
        limit: Duration::from_secs(2),
        of: |figures| longest(&figures.after.quits),
    },
    Time {
        what: "ADD of another pod by the next agent",
        budget: None,
        limit: Duration::from_secs(1),
        of: |figures| longest(&figures.after.adds),
    },
    Time {
        what: "response of /healthz of the next agent",
        budget: None,
        limit: Duration::from_secs(1),
        of: |figures| longest(&figures.next_health),
    },
];

/// An attack, and the same node without it.
#[derive(Debug)]
pub(crate) struct Comparison {
    usual: Figures,
    attacked: Figures,
}

/// A time of a [`Comparison`].
#[derive(Debug, Clone, Copy)]
struct Compared {
    what: &'static str,
    budget: Option<Duration>,
    limit: Duration,
    usual: Duration,
    attacked: Duration,
}

impl fmt::Display for Compared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            budget,
            limit,
            usual,
            attacked,
            ..
        } = self;
        write!(
            out,
            "{attacked:?}, without the attack {usual:?}, limit {limit:?}"
        )?;
        budget.map_or(Ok(()), |budget| write!(out, ", budget {budget:?}"))
    }
}

impl Comparison {
    /// Measures the node without the attack, then with it.
    pub(crate) fn of(attack: &Attack) -> Self {
        Self {
            usual: attack.without_pods().measure(),
            attacked: attack.measure(),
        }
    }

    fn times(&self) -> impl Iterator<Item = Compared> {
        TIMES.iter().map(|time| {
            let [usual, attacked] = [&self.usual, &self.attacked].map(time.of);
            Compared {
                what: time.what,
                budget: time.budget,
                limit: slower(time.limit).max(usual * NOISE),
                usual,
                attacked,
            }
        })
    }

    /// The exceeded limits, each with the measured times, and the pods that were not served.
    pub(crate) fn exceeded(&self) -> BTreeMap<&'static str, Vec<String>> {
        let times = self
            .times()
            .filter(|time| time.attacked > time.limit)
            .map(|time| (time.what, vec![time.to_string()]));
        times.chain(self.unserved()).collect()
    }

    /// The other pods that the agents did not serve during the attack.
    fn unserved(&self) -> impl Iterator<Item = (&'static str, Vec<String>)> {
        let Figures { during, after, .. } = &self.attacked;
        let pods = [
            ("not held", &during.unheld),
            ("quarantined", &during.quarantined),
            ("not held by the next agent", &after.unheld),
            ("quarantined by the next agent", &after.quarantined),
        ];
        pods.into_iter()
            .filter(|(_what, pods)| !pods.is_empty())
            .map(|(what, pods)| (what, pods.clone()))
    }
}

fn longest(times: &[Duration]) -> Duration {
    times.iter().copied().max().unwrap_or_default()
}
