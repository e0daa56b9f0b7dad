use std::{fs::File, sync::Arc};

use usher_core::{
    base::id::{ContainerId, ContainerKey},
    hold::{
        Probe,
        ruleset::{HeldPort, Wanted},
    },
    worker::message::ForgottenTable,
};
use usher_sys::net::netns::Netns;

use super::*;
use crate::{
    kubernetes::events::EventPublisher,
    telemetry::{metrics::Metrics, reporter::Reporter},
};

impl Worker {
    /// A worker process that does not run.
    pub(crate) fn absent() -> Self {
        let metrics = Arc::new(Metrics::new());
        let (events, _publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
        let launch = Launch {
            role: "worker",
            flags: Vec::new(),
            variables: Vec::new(),
        };
        Self::new(launch, Instant::now(), Reporter::new(metrics, events))
    }

    /// The jobs that the worker process receives after its start.
    pub(crate) fn unsent_jobs(&self) -> Vec<Job> {
        let orders = self.unsent.iter();
        orders
            .map(|unsent| Order::decode(&unsent.message).unwrap().job)
            .collect()
    }
}

/// The namespace of the test.
fn own_netns() -> Netns {
    let file = File::open("/proc/self/ns/net").unwrap();
    Netns::from_fd(file.into()).unwrap()
}

fn sandbox() -> SandboxId {
    SandboxId::parse("5a").unwrap()
}

fn container() -> ContainerKey {
    ContainerKey {
        pod: PodUid::parse(&"1".repeat(32)).unwrap(),
        id: ContainerId::parse(&"c0".repeat(32)).unwrap(),
    }
}

fn forget() -> Job {
    Job::Forget {
        sandbox: sandbox(),
        table: ForgottenTable::LeftoverDeleted,
    }
}

fn send(worker: &mut Worker, purpose: Purpose, job: Job) {
    let netns = Arc::new(own_netns());
    worker.send(netns.id(), purpose, job, vec![Descriptor::Netns(netns)]);
}

/// Its descriptor would keep the network namespace of a pod alive that may have been deleted.
#[test]
fn check_does_not_wait_for_a_worker() {
    let mut worker = Worker::absent();
    send(&mut worker, Purpose::Prepare(container()), Job::Check);
    assert_eq!(worker.unsent_jobs(), []);
}

/// No further job would release the ports.
#[test]
fn release_of_ports_waits_for_a_worker() {
    let mut worker = Worker::absent();
    let job = Job::ReleasePorts {
        sandbox: sandbox(),
        ports: vec![15001],
    };
    send(&mut worker, Purpose::Change(sandbox()), job.clone());
    assert_eq!(worker.jobs.due(), None);
    worker.jobs.restart(Instant::now());
    assert!(worker.jobs.due().is_some());
    assert_eq!(worker.unsent_jobs(), [job]);
}

#[test]
fn jobs_without_a_reply_are_bounded() {
    let mut worker = Worker::absent();
    let netns = own_netns().id();
    for _ in 0..=MAX_UNSENT {
        worker.send(netns, Purpose::Change(sandbox()), forget(), Vec::new());
    }
    assert_eq!(worker.unsent.len(), MAX_UNSENT);
    worker.send(netns, Purpose::Arm(sandbox()), arm(1), Vec::new());
    assert_eq!(worker.unsent.len(), MAX_UNSENT);
    assert!(is_failed_arm(worker.news.front()), "{:?}", worker.news);
}

/// The worker closes the descriptors of a sandbox with this job.
#[test]
fn forgetting_needs_no_room_among_the_replies() {
    let mut worker = Worker::absent();
    let netns = own_netns().id();
    for id in 0..MAX_JOBS as u64 {
        let purpose = Purpose::Change(sandbox());
        worker.jobs.insert(JobId(id), netns, purpose, None, None);
    }
    send(&mut worker, Purpose::Change(sandbox()), forget());
    assert_eq!(worker.unsent_jobs(), [forget()]);
}

fn is_failed_arm(news: Option<&News>) -> bool {
    matches!(news, Some(News::Event(Event::Armed { result: Err(_), .. })))
}

fn arm(ports: u16) -> Job {
    let timeout = Duration::from_secs(30);
    let ports = (0..ports).map(|port| HeldPort { port, timeout });
    Job::Arm {
        sandbox: sandbox(),
        wanted: Wanted {
            ports: ports.collect(),
            ..Wanted::default()
        },
    }
}

/// The worker could not receive it, and would end.
#[test]
fn job_that_is_too_long_for_a_message_fails() {
    let mut worker = Worker::absent();
    send(&mut worker, Purpose::Arm(sandbox()), arm(10_000));
    assert_eq!(worker.unsent_jobs(), []);
    assert!(is_failed_arm(worker.news.front()), "{:?}", worker.news);
    let fits = arm(64);
    send(&mut worker, Purpose::Arm(sandbox()), fits.clone());
    assert_eq!(worker.unsent_jobs(), [fits]);
}

fn probe(port: u16) -> (Purpose, Job) {
    let probe = Probe::Listens { port };
    let job = Job::Probe {
        sandbox: sandbox(),
        probe: probe.clone(),
    };
    (Purpose::Probe(sandbox(), probe), job)
}

/// The engine repeats it.
#[test]
fn probe_of_a_pod_in_quarantine_fails() {
    let mut worker = Worker::absent();
    let now = worker.now();
    let netns = own_netns().id();
    let reason = QuarantineReason::CostlyRules;
    worker.quarantine.begin(now, netns, reason);
    let (purpose, job) = probe(15001);
    send(&mut worker, purpose, job);
    let news = worker.news.front();
    assert!(
        matches!(news, Some(News::Event(Event::ProbeFailed { .. }))),
        "{news:?}"
    );
}

/// The next worker gets them.
#[test]
fn probes_do_not_fail_with_a_worker() {
    let mut worker = Worker::absent();
    let (purpose, job) = probe(15001);
    send(&mut worker, purpose, job);
    worker.ended("a test ends it");
    let news = worker.news.pop_front();
    assert!(matches!(news, Some(News::Ended)), "{news:?}");
    assert!(worker.news.is_empty());
    assert_eq!(worker.jobs.len(true), 0);
}

fn look() -> (Purpose, Job) {
    let adopt = Job::Adopt { sandbox: sandbox() };
    (Purpose::Look(container(), sandbox()), adopt)
}

/// The next worker looks again.
#[test]
fn look_does_not_fail_with_a_worker() {
    let mut worker = Worker::absent();
    let (purpose, job) = look();
    send(&mut worker, purpose, job);
    // Without a worker its descriptor is not kept for ever.
    assert!(worker.jobs.due().is_some());
    worker.ended("a test ends it");
    let news = worker.news.pop_front();
    assert!(matches!(news, Some(News::Ended)), "{news:?}");
    assert!(worker.news.is_empty(), "{:?}", worker.news);
    assert_eq!(worker.jobs.len(false), 0);
}

/// A table that is given up would be deleted, although the worker still adopts it.
#[test]
fn late_adoption_is_waited_for() {
    let mut worker = Worker::absent();
    let netns = own_netns().id();
    let (purpose, job) = look();
    send(&mut worker, purpose, job);
    let readopt = Purpose::Readopt(sandbox());
    send(&mut worker, readopt, Job::Adopt { sandbox: sandbox() });
    send(&mut worker, Purpose::Arm(sandbox()), arm(1));
    let late = Reply::Late {
        netns,
        is_change: true,
    };
    worker.received(late);
    // A job that does not adopt fails.
    let failed = worker.news.pop_front();
    assert!(is_failed_arm(failed.as_ref()), "{failed:?}");
    assert!(worker.news.is_empty(), "{:?}", worker.news);
    for id in [1, 2] {
        worker.received(Reply::Adopted {
            id: JobId(id),
            result: Ok(None),
        });
    }
    let news = worker.news.make_contiguous();
    assert!(
        matches!(
            news,
            [
                News::Event(Event::Found { .. }),
                News::Readopted(_, Ok(false))
            ]
        ),
        "{news:?}"
    );
}

/// A job that follows a failure finds the tables adopted.
#[test]
fn end_of_a_worker_is_reported_before_its_failed_jobs() {
    let mut worker = Worker::absent();
    send(&mut worker, Purpose::Arm(sandbox()), arm(1));
    worker.ended("a test ends it");
    let first = worker.news.pop_front();
    assert!(matches!(first, Some(News::Ended)), "{first:?}");
    assert!(is_failed_arm(worker.news.front()), "{:?}", worker.news);
}

#[test]
fn one_pod_leaves_room_for_the_jobs_of_others() {
    let mut worker = Worker::absent();
    let netns = own_netns().id();
    let other = NetnsId {
        dev: netns.dev,
        ino: netns.ino + 1,
    };
    for port in 0..1000 {
        let (purpose, job) = probe(port);
        worker.send(netns, purpose, job, Vec::new());
    }
    assert_eq!(worker.jobs.len(true), MAX_JOBS_OF_POD);
    worker.news.clear();
    worker.send(netns, Purpose::Arm(sandbox()), arm(1), Vec::new());
    assert!(is_failed_arm(worker.news.front()), "{:?}", worker.news);
    worker.send(other, Purpose::Arm(sandbox()), arm(1), Vec::new());
    let release = Job::ReleaseAll { sandbox: sandbox() };
    worker.send(netns, Purpose::ReleaseAll(sandbox()), release, Vec::new());
    assert_eq!(worker.jobs.len(false), 2);
}

/// 64 pods with 64 ports each, all of which are probed until the pods end.
#[test]
fn probes_of_many_pods_leave_room_for_other_jobs() {
    let mut worker = Worker::absent();
    let netns = |ino| NetnsId { dev: 4, ino };
    for ino in 0..100 {
        for port in 0..64 {
            let (purpose, job) = probe(port);
            worker.send(netns(ino), purpose, job, Vec::new());
        }
    }
    assert_eq!(worker.jobs.len(true), MAX_JOBS + (100 - 64) * PROBES_OF_POD);
    worker.news.clear();
    let (purpose, job) = probe(15001);
    worker.send(netns(100), purpose, job, Vec::new());
    worker.send(netns(101), Purpose::Arm(sandbox()), arm(1), Vec::new());
    assert!(worker.news.is_empty(), "{:?}", worker.news);
}
