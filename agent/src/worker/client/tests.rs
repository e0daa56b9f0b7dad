use std::{fs::File, sync::Arc};

use usher_core::{
    base::id::{ContainerId, ContainerKey},
    hold::ruleset::Wanted,
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

fn forget() -> Job {
    Job::Forget {
        sandbox: sandbox(),
        may_have_table: true,
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
    let key = ContainerKey {
        pod: PodUid::parse(&"1".repeat(32)).unwrap(),
        id: ContainerId::parse(&"c0".repeat(32)).unwrap(),
    };
    send(&mut worker, Purpose::Prepare(key), Job::Check);
    assert_eq!(worker.unsent_jobs(), []);
}

/// No further job would release the ports.
#[test]
fn release_of_ports_waits_for_a_worker() {
    let mut worker = Worker::absent();
    let job = Job::OpenSome {
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
    for _ in 0..=MAX_JOBS {
        worker.send(netns, Purpose::Change(sandbox()), forget(), Vec::new());
    }
    assert_eq!(worker.unsent.len(), MAX_JOBS);
    let arm = Job::Arm {
        sandbox: sandbox(),
        wanted: Wanted::default(),
    };
    worker.send(netns, Purpose::Arm(sandbox()), arm, Vec::new());
    assert_eq!(worker.unsent.len(), MAX_JOBS);
    let news = worker.news.pop_front();
    assert!(
        matches!(news, Some(News::Event(Event::Armed { result: Err(_), .. }))),
        "{news:?}"
    );
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
