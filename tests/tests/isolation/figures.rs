//! What is measured before and during an attack, and the limits.

use std::time::Duration;

use usher_tests::wait::slower;

use crate::neighbours::Served;

/// From the exit of another pod's app to the quit request.
const QUIT: Duration = Duration::from_millis(50);
/// The whole call of the CNI plugin for another pod.
const ADD: Duration = Duration::from_millis(20);
/// A response of `/healthz`.
const HEALTH: Duration = Duration::from_millis(100);
/// From SIGKILL to the end of the agent.
const DEATH: Duration = Duration::from_millis(100);
/// From the start of the next agent until it serves HTTP.
const START: Duration = Duration::from_secs(2);

/// The next agent still reads the node when the pods finish and start.
const NEXT_QUIT: Duration = Duration::from_secs(1);
const NEXT_ADD: Duration = Duration::from_millis(250);
/// On a machine that is busy with other work, a limit is this many times the time without an attack.
const NOISE: u32 = 4;

#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) before: Served,
    pub(crate) usual_health: Duration,
    pub(crate) during: Served,
    /// The longest response of `/healthz`.
    pub(crate) health: Duration,
    pub(crate) death: Duration,
    pub(crate) start: Duration,
    /// By the next agent.
    pub(crate) after: Served,
}

impl Figures {
    /// The exceeded limits, each with the measured time.
    pub(crate) fn exceeded(&self) -> Vec<String> {
        let quit = QUIT.max(self.before.quit * NOISE);
        let add = ADD.max(self.before.add * NOISE);
        let health = HEALTH.max(self.usual_health * NOISE);
        let figures = [
            ("quit of another pod", self.during.quit, quit),
            ("ADD of another pod", self.during.add, add),
            ("response of /healthz", self.health, health),
            ("end of the agent after SIGKILL", self.death, DEATH),
            ("start of the next agent", self.start, START),
            (
                "quit of another pod by the next agent",
                self.after.quit,
                quit.max(NEXT_QUIT),
            ),
            (
                "ADD of another pod by the next agent",
                self.after.add,
                add.max(NEXT_ADD),
            ),
        ];
        let times = figures
            .into_iter()
            .filter(|(_what, time, limit)| *time > slower(*limit))
            .map(|(what, time, limit)| format!("{what}: {time:?}, limit {limit:?}"));
        let served = [(&self.during, "agent"), (&self.after, "next agent")];
        let pods = served
            .into_iter()
            .flat_map(|(served, agent)| {
                [
                    (&served.unheld, "not held", agent),
                    (&served.quarantined, "quarantined", agent),
                ]
            })
            .filter(|(pods, _what, _agent)| !pods.is_empty())
            .map(|(pods, what, agent)| format!("{what} by the {agent}: {pods:?}"));
        times.chain(pods).collect()
    }
}
