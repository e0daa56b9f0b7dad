//! Runs a pod according to its plan, with the actions of the kubelet.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::{Node, Pod, RestartPolicy, usher};

use crate::facts::{self, Facts};
use crate::fault_log::{FaultLog, NEVER};
use crate::judge::{self, Fate};
use crate::plan::{KILLED, PodPlan, Variation, app_name, last_life, restarts};
use crate::sidecar::Sidecar;

/// The time without faults that suffices for every pending action, also on a busy machine: a failed action is retried
/// after at most 30 s, and all steps of a recipe take some 12 s.
pub(crate) const PEACE: Duration = Duration::from_secs(60);
/// The polling interval.
const LOOK: Duration = Duration::from_millis(25);
/// Time between the end of a container and its next start.
const BACKOFF: Duration = Duration::from_millis(150);
/// The time for which a pod must not change.
const WATCHED: Duration = Duration::from_secs(4);
/// The runs of a sidecar that restarts.
const LIVES: usize = 5;

/// The state of an app.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// It does not run yet.
    Starting,
    /// It runs until this time.
    Until(Instant),
    /// It was requested to exit.
    EndRequested,
    /// It restarts at this time.
    Again(Instant),
    /// It has no run left.
    Over,
}

struct Course<'a> {
    plan: &'a PodPlan,
    pod: &'a Pod,
    /// The number of the run, and its state.
    apps: Vec<(usize, Stage)>,
    end_requested: Option<u64>,
    created: BTreeMap<usize, Option<Instant>>,
    made: Instant,
}

/// Runs the pod, and returns its outcome.
pub(crate) fn live(plan: &PodPlan, node: &Node, fault_log: &FaultLog) -> Facts {
    let made = monotonic_ns();
    let mut pod = node.create(&plan.spec());
    if let Variation::Removed(after) = plan.variation {
        std::thread::sleep(after);
        let facts = facts(plan, &pod, made, None, false);
        pod.begin_removal();
        return facts;
    }
    pod.initialize();
    if plan.variation == Variation::Deleted {
        pod.mark_deleted();
    }
    let mut course = Course {
        plan,
        pod: &pod,
        apps: vec![(0, Stage::Starting); plan.apps.len()],
        end_requested: None,
        created: BTreeMap::new(),
        made: Instant::now(),
    };
    while !course.step() {
        std::thread::sleep(LOOK);
    }
    let settled = course.settle(fault_log);
    let end_requested = course.end_requested;
    facts(plan, &pod, made, end_requested, settled).explained(node, &pod)
}

impl Course<'_> {
    /// Checks the pod once; true when the apps have no more runs.
    fn step(&mut self) -> bool {
        for number in 0..self.apps.len() {
            self.apps[number] = self.app(number);
        }
        self.sidecars();
        self.apps
            .iter()
            .all(|(_, stage)| matches!(stage, Stage::Over))
    }

    fn app(&mut self, number: usize) -> (usize, Stage) {
        let (life, stage) = self.apps[number];
        let app = &self.plan.apps[number];
        let name = app_name(number);
        let (length, code) = app.lives[life];
        let next = match stage {
            Stage::Starting if self.pod.has_run(&name) => Stage::Until(Instant::now() + length),
            Stage::Until(due) if due <= Instant::now() => {
                self.send_exit(number, life, &name, code);
                Stage::EndRequested
            }
            Stage::EndRequested if self.pod.end_so_far(&name).is_some() => {
                let more = restarts(self.plan.policy, app, code) && life + 1 < app.lives.len();
                if !more {
                    return (life, Stage::Over);
                }
                return (life + 1, Stage::Again(Instant::now() + BACKOFF));
            }
            Stage::Again(due) if due <= Instant::now() => {
                self.pod.restart(&name);
                Stage::Starting
            }
            other => other,
        };
        (life, next)
    }

    fn send_exit(&mut self, number: usize, life: usize, name: &str, code: u8) {
        let over = |(other, app): (usize, &(usize, Stage))| {
            other == number || matches!(app.1, Stage::EndRequested | Stage::Over)
        };
        let is_last = last_life(self.plan.policy, &self.plan.apps[number]).0 == life;
        let others = self.apps.iter().enumerate().all(over);
        let others_last = self.apps.iter().enumerate().all(|(other, (life, _))| {
            last_life(self.plan.policy, &self.plan.apps[other]).0 == *life
        });
        if self.plan.finishes() && is_last && others && others_last {
            self.end_requested = Some(monotonic_ns());
        }
        if code == KILLED {
            self.pod.signal(name, Signal::SIGKILL);
        } else {
            self.pod.finish(name, code);
        }
    }

    /// Creates late sidecars, and restarts others.
    fn sidecars(&mut self) {
        for (number, sidecar) in self.plan.sidecars.iter().enumerate() {
            let name = sidecar.stand_in().container.name;
            let late = self.plan.sidecar_delay;
            if late.is_some_and(|late| late > self.made.elapsed()) {
                continue;
            }
            let due = self.created.entry(number).or_insert_with(|| {
                late.is_some().then(|| self.pod.start(&name));
                None
            });
            let record = self.pod.record();
            let lives = &record.containers[&name].attempts;
            let Some(ended) = lives.last().and_then(|life| life.ended.as_ref()) else {
                continue;
            };
            let again = match self.plan.policy {
                RestartPolicy::Never => false,
                RestartPolicy::OnFailure => ended.code() != 0,
                RestartPolicy::Always => true,
            };
            if !again || lives.len() >= LIVES {
                continue;
            }
            match *due {
                None => *due = Some(Instant::now() + BACKOFF),
                Some(at) if at <= Instant::now() => {
                    *due = None;
                    self.pod.start(&name);
                }
                Some(_) => {}
            }
        }
    }

    /// Waits for the correct outcome of the sidecars; false if there was not enough time without faults.
    fn settle(&mut self, fault_log: &FaultLog) -> bool {
        let began = Instant::now();
        let since = monotonic_ns();
        loop {
            self.sidecars();
            let peace = fault_log.calm_since(since);
            if self.left() || peace >= PEACE {
                return self.left() || peace >= PEACE;
            }
            let fates =
                (0..self.plan.sidecars.len()).map(|sidecar| judge::fate(self.plan, sidecar));
            let waits = fates.clone().any(|fate| fate == Fate::Leaves);
            let stays = fates.clone().any(|fate| fate == Fate::Stays);
            let watched = if stays { PEACE } else { WATCHED };
            if !waits && began.elapsed() >= watched {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// All sidecars that have to exit have exited, and there are such.
    fn left(&self) -> bool {
        let record = self.pod.record();
        let sidecars: Vec<(usize, &Sidecar)> = self.plan.sidecars.iter().enumerate().collect();
        let leaving = sidecars
            .iter()
            .filter(|(number, _)| judge::fate(self.plan, *number) == Fate::Leaves);
        let mut leaving = leaving.peekable();
        leaving.peek().is_some()
            && leaving.all(|(_, sidecar)| {
                let name = sidecar.stand_in().container.name;
                let container = record.containers.get(&name);
                let last = container.and_then(|container| container.attempts.last());
                last.is_some_and(|life| life.ended.is_some())
            })
    }
}

fn facts(plan: &PodPlan, pod: &Pod, made: u64, end_requested: Option<u64>, settled: bool) -> Facts {
    let gone = monotonic_ns();
    let record = pod.record();
    Facts {
        plan: plan.clone(),
        uid: pod.uid().to_owned(),
        made,
        end_requested,
        gone,
        settled,
        sidecars: facts::sidecars(plan, &record),
        connection: facts::connection(&record),
        answered: facts::answered(plan, &record),
        ready: facts::ready(plan, &record),
        table: plan.hold.is_some() && settled && has_table(pod),
        explained: String::new(),
    }
}

impl Facts {
    /// Runs `usher explain` for a pod that the judge may complain of.
    fn explained(mut self, node: &Node, pod: &Pod) -> Self {
        let suspicious = self.table || !judge::pod(&self, &[]).is_empty();
        if suspicious && self.gone != NEVER {
            let ran = usher::on(node, &["explain", &pod.name()]);
            self.explained = format!("{}{}", ran.stdout, ran.stderr);
        }
        self
    }
}

fn has_table(pod: &Pod) -> bool {
    let ran = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["nft", "list", "tables"])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8_lossy(&ran.stdout).contains("table inet usher")
}
