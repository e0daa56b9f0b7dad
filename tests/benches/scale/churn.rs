//! Pods that start, finish, are terminated and removed, 20 a second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use usher_tests::record::{Limit, Record, Sample};
use usher_tests::synthetic::inventory::Inventory;
use usher_tests::synthetic::{Agent, Pod};

use crate::Effort;
use crate::crowd::latency;
use crate::place::{Place, count};

const EACH: Duration = Duration::from_millis(50);
/// From a pod's start to its app's exit, and from there until its removal: time to start on a busy machine,
/// and to be terminated.
const LIFE: Duration = Duration::from_secs(3);
const REST: Duration = Duration::from_secs(1);
/// The time to send more Events than the queue can hold.
const EVENT_LIMIT: Duration = Duration::from_secs(300);
/// The interval between samples of memory and queue.
const LOOK: Duration = Duration::from_secs(1);

/// Pods in the three stages of their lives, each with the end of the stage.
#[derive(Default)]
struct Lives {
    running: VecDeque<(Instant, Pod)>,
    finished: VecDeque<(Instant, Pod)>,
    leaving: VecDeque<(Instant, Pod)>,
    latency: Sample,
}

impl Lives {
    /// Performs the due actions.
    fn go_on(&mut self, now: Instant) {
        for pod in due(&mut self.running, now) {
            pod.finish("app", 0);
            self.finished.push_back((now + REST, pod));
        }
        for mut pod in due(&mut self.finished, now) {
            self.latency.add(latency(&pod));
            pod.begin_removal();
            self.leaving.push_back((now + REST, pod));
        }
        // The pods had enough time for their removal, so this hardly waits.
        drop(due(&mut self.leaving, now));
    }

    fn is_over(&self) -> bool {
        self.running.is_empty() && self.finished.is_empty() && self.leaving.is_empty()
    }
}

fn due(stage: &mut VecDeque<(Instant, Pod)>, now: Instant) -> Vec<Pod> {
    let count = stage.iter().take_while(|(end, _)| *end <= now).count();
    stage.drain(..count).map(|(_, pod)| pod).collect()
}

/// Waits until the agent has sent its queued Events; a node may send ten a second, and more pods than that exit.
fn wait_for_events(agent: &Agent) -> Duration {
    let began = Instant::now();
    while agent.metric("usher_events_queued", "") > 0.5 {
        assert!(began.elapsed() < EVENT_LIMIT, "Events stay where they are");
        // Rarely: a sample takes the agent's time, which is measured.
        std::thread::sleep(LOOK);
    }
    began.elapsed()
}

pub(crate) fn measure(record: &mut Record, effort: &Effort) {
    let mut place = Place::new(0);
    place.crowd.settle(&place.agent);
    let (requests, before) = (place.requests(), place.agent.whole_usage());
    let main_before = place.agent.usage();
    let had = Inventory::of(place.agent.pid());
    let (mut lives, mut look) = (Lives::default(), Instant::now());
    let (mut most_kib, mut most_whole_kib) = (0, 0);
    let (began, mut made) = (Instant::now(), 0_usize);
    let mut next = began;
    while began.elapsed() < effort.churn || !lives.is_over() {
        if began.elapsed() < effort.churn {
            let spec = place.crowd.next();
            let pod = place.crowd.node.create(&spec);
            lives.running.push_back((Instant::now() + LIFE, pod));
            made += 1;
        }
        let now = Instant::now();
        lives.go_on(now);
        if now >= look {
            most_kib = most_kib.max(place.agent.usage().resident_kib);
            most_whole_kib = most_whole_kib.max(place.agent.whole_usage().resident_kib);
            look = now + LOOK;
        }
        next = (next + EACH).max(now);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let took = began.elapsed();
    let late = wait_for_events(&place.agent);
    place.crowd.settle(&place.agent);
    let (after, main_after) = (place.agent.whole_usage(), place.agent.usage());
    let has = Inventory::of(place.agent.pid());
    let requests = place.requests().since(requests);
    let pods = count(made);
    record.section(&format!(
        "pods come, finish and go, {} a second wanted, for {} s",
        Duration::from_secs(1).as_millis() / EACH.as_millis(),
        effort.churn.as_secs()
    ));
    record.times("exit -> request", &lives.latency);
    record.figure("pods", pods);
    record.figure("pods a second", pods / effort.churn.as_secs_f64());
    let cpu = (after.cpu - before.cpu).as_secs_f64();
    record.figure("CPU, % of a core", cpu / took.as_secs_f64() * 100.0);
    record.figure("CPU for each pod, ms", cpu * 1000.0 / pods);
    let mib = |kib: u64| f64::from(u32::try_from(kib).expect("below 4 TiB")) / 1024.0;
    record.limit(
        "churn.resident",
        "main process, resident at most, MiB",
        mib(most_kib),
        Limit::AtMost(12.0),
    );
    record.figure("  before, MiB", mib(main_before.resident_kib));
    record.figure("  after, MiB", mib(main_after.resident_kib));
    record.figure("all processes, resident at most, MiB", mib(most_whole_kib));
    record.figure("descriptors before", count(had.total()));
    record.figure("descriptors after", count(has.total()));
    record.keyed(
        "fleet.kubelet",
        "lists of the kubelet's pods for each pod",
        requests.kubelet / pods,
    );
    let dropped = place.agent.metric("usher_events_total", "dropped");
    record.figure("Events dropped for each pod", dropped / pods);
    record.figure("the last Event was sent after, s", late.as_secs_f64());
    // The normal rate of a node.
    record.keyed(
        "fleet.requests",
        "requests to the API server for each pod, with what was dropped",
        (requests.api + requests.watches + dropped) / pods,
    );
    record.keyed(
        "fleet.events",
        "Events among them for each pod, with what was dropped",
        (requests.events + dropped) / pods,
    );
    record.keyed(
        "fleet.bytes",
        "sent to the API server for each pod, with what was dropped, bytes",
        requests.bytes / pods * (requests.events + dropped) / requests.events.max(1.0),
    );
}
