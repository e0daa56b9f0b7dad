//! The agent of a full, idle node.

use std::time::Duration;

use usher_tests::record::{Limit, Record};
use usher_tests::synthetic::inventory::Inventory;

use crate::place::{Place, count};
use crate::{Effort, PODS};

/// The time until the agent is idle: it looks up the names of new containers during their first 2 s.
const NEW: Duration = Duration::from_secs(3);
const MIB: f64 = 1024.0;

pub(crate) fn measure(record: &mut Record, effort: &Effort) {
    let mut place = Place::new(PODS);
    place.crowd.refill();
    place.crowd.settle(&place.agent);
    std::thread::sleep(NEW);
    let (came, before) = (place.requests(), place.agent.whole_usage());
    std::thread::sleep(effort.rest);
    let (requests, after) = (place.requests().since(came), place.agent.whole_usage());
    let main = place.agent.usage();
    record.section(&format!(
        "agent with {PODS} pods, nothing happens for {} s",
        effort.rest.as_secs()
    ));
    record.limit(
        "rest.resident",
        "main process, resident, MiB",
        kib(main.resident_kib) / MIB,
        Limit::AtMost(12.0),
    );
    record.figure(
        "  of it not the program's file, MiB",
        kib(main.anonymous_kib) / MIB,
    );
    record.figure(
        "all processes, resident, MiB",
        kib(after.resident_kib) / MIB,
    );
    let share = (after.cpu - before.cpu).as_secs_f64() / effort.rest.as_secs_f64() * 100.0;
    record.limit("rest.cpu", "CPU, % of a core", share, Limit::AtMost(0.1));
    let wakeups = kib(after.wakeups - before.wakeups);
    record.limit(
        "rest.wakeups",
        "wake-ups (voluntary context switches)",
        wakeups,
        Limit::AtMost(0.0),
    );
    let preempted = kib(after.preemptions - before.preemptions);
    record.figure("involuntary context switches", preempted);
    record.limit(
        "api.rest",
        "requests to the API server and the kubelet",
        requests.api + requests.watches + requests.kubelet,
        Limit::AtMost(0.0),
    );
    record.limit(
        "api.watches",
        "watches at the API server since the agent's start",
        came.watches,
        Limit::AtMost(1.0),
    );
    record.keyed(
        "fleet.start",
        "other requests to the API server until then",
        came.api,
    );
    record.keyed(
        "fleet.lists",
        "lists of the kubelet's pods for each pod that came",
        came.kubelet / count(PODS),
    );
    record.keyed(
        "fleet.rest",
        "requests to the API server while nothing happens, a second",
        (requests.api + requests.watches) / effort.rest.as_secs_f64(),
    );
    let has = Inventory::of(place.agent.pid());
    record.figure("threads", count(has.threads));
    record.figure("descriptors", count(has.total()));
    for (kind, number) in &has.descriptors {
        record.figure(&format!("  {kind}"), count(*number));
    }
    record.figure("inotify watches", count(has.watches));
}

fn kib(number: u64) -> f64 {
    f64::from(u32::try_from(number).expect("a small number"))
}
