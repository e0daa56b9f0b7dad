use std::{fs::File, time::Duration};

use usher_core::{
    base::id::{ContainerId, NetnsId, PodUid},
    cni::protocol::Request,
    hold::Remains,
};
use usher_sys::{pods::proc::ProcRoot, seqpacket::Connection};

use super::*;

const SANDBOX: &str = "5a";

fn id() -> SandboxId {
    SandboxId::parse(SANDBOX).unwrap()
}

/// The namespace of the test.
fn own_netns() -> Netns {
    let file = File::open("/proc/self/ns/net").unwrap();
    Netns::from_fd(file.into()).unwrap()
}

/// A sandbox whose table is being installed.
fn arming(worker: &mut Worker) -> Sandboxes {
    let mut sandboxes = Sandboxes::default();
    let sandbox = Sandbox::new(own_netns(), Span::none());
    sandboxes.open.insert(id(), sandbox);
    assert_eq!(sandboxes.arm(worker, id(), Wanted::default()), None);
    sandboxes
}

/// A sandbox with a table.
fn held(worker: &mut Worker) -> Sandboxes {
    let mut sandboxes = arming(worker);
    let (sandbox, result) = (id(), Ok(()));
    sandboxes.note(worker, &Event::Armed { sandbox, result });
    sandboxes
}

fn release_ports(ports: &[u16]) -> Job {
    Job::ReleasePorts {
        sandbox: id(),
        ports: ports.to_vec(),
    }
}

/// The jobs for a worker whose predecessor ended.
fn readopted(sandboxes: &Sandboxes) -> Vec<Job> {
    let mut next = Worker::absent();
    sandboxes.readopt(&mut next);
    next.unsent_jobs()
}

#[test]
fn released_ports_are_released_again_after_the_loss_of_a_worker() {
    let mut worker = Worker::absent();
    let mut sandboxes = held(&mut worker);
    let adopt = || Job::Adopt { sandbox: id() };
    assert_eq!(readopted(&sandboxes), [adopt()]);
    for port in [15001, 5432] {
        sandboxes.change(&mut worker, id(), release_ports(&[port]));
    }
    let again = [adopt(), release_ports(&[15001, 5432])];
    assert_eq!(readopted(&sandboxes), again);
    // They belong to one table.
    assert_eq!(sandboxes.arm(&mut worker, id(), Wanted::default()), None);
    assert_eq!(readopted(&sandboxes), [adopt()]);
}

fn container() -> ContainerKey {
    ContainerKey {
        pod: PodUid::parse(&"1".repeat(32)).unwrap(),
        id: ContainerId::parse(&"c0".repeat(32)).unwrap(),
    }
}

/// A sandbox that the worker looks into for an earlier agent's table.
fn looked_into(worker: &mut Worker) -> Sandboxes {
    let mut sandboxes = Sandboxes::default();
    sandboxes.look_into(worker, &id(), own_netns(), &container(), Span::none());
    sandboxes
}

/// No further container may start, and no other event would repeat it.
#[test]
fn look_is_repeated_after_the_loss_of_a_worker() {
    let adopt = Job::Adopt { sandbox: id() };
    let found = |remains| Event::Found {
        key: container(),
        sandbox: id(),
        remains,
    };
    let mut worker = Worker::absent();
    let mut sandboxes = looked_into(&mut worker);
    assert_eq!(readopted(&sandboxes), std::slice::from_ref(&adopt));
    sandboxes.note(&mut worker, &found(None));
    assert_eq!(readopted(&sandboxes), []);
    // A table that was found is adopted once more.
    let remains = Remains {
        ports: vec![(15001, Duration::from_secs(12))],
        count_only: false,
        queries: false,
    };
    let mut sandboxes = looked_into(&mut worker);
    sandboxes.note(&mut worker, &found(Some(remains)));
    assert_eq!(readopted(&sandboxes), [adopt]);
    // The plugin has announced the sandbox in the meantime.
    let mut sandboxes = looked_into(&mut worker);
    sandboxes.open.get_mut(&id()).unwrap().is_announced = true;
    sandboxes.not_found(&mut worker, &id());
    assert_eq!(readopted(&sandboxes), []);
}

/// The worker may have adopted it.
#[test]
fn table_stays_in_a_sandbox_that_was_not_found() {
    let mut worker = Worker::absent();
    let mut sandboxes = looked_into(&mut worker);
    sandboxes.not_found(&mut worker, &id());
    let forget = Job::Forget {
        sandbox: id(),
        table: ForgottenTable::Kept,
    };
    assert_eq!(worker.unsent_jobs().last(), Some(&forget));
    assert!(sandboxes.open.is_empty());
}

#[test]
fn nothing_is_released_again_without_a_table() {
    for result in [Ok(Tally::default()), Err(String::new())] {
        let mut worker = Worker::absent();
        let mut sandboxes = held(&mut worker);
        sandboxes.change(&mut worker, id(), release_ports(&[15001]));
        let sandbox = id();
        sandboxes.note(&mut worker, &Event::Released { sandbox, result });
        assert_eq!(readopted(&sandboxes), []);
    }
}

/// For example, that of an earlier worker could not be adopted.
#[test]
fn failure_of_an_earlier_table_does_not_remove_the_next_one() {
    let mut worker = Worker::absent();
    let mut sandboxes = arming(&mut worker);
    let before = worker.unsent_jobs();
    let (sandbox, result) = (id(), Err(String::new()));
    sandboxes.note(&mut worker, &Event::Released { sandbox, result });
    assert_eq!(worker.unsent_jobs(), before);
    let (sandbox, result) = (id(), Err(String::new()));
    sandboxes.note(&mut worker, &Event::Armed { sandbox, result });
    let forget = Job::Forget {
        sandbox: id(),
        table: ForgottenTable::LeftoverDeleted,
    };
    assert_eq!(worker.unsent_jobs().last(), Some(&forget));
}

/// The engine waits for the result.
#[test]
fn release_of_a_sandbox_that_is_not_open_succeeds() {
    let mut worker = Worker::absent();
    let mut sandboxes = Sandboxes::default();
    let released = Event::Released {
        sandbox: id(),
        result: Ok(Tally::default()),
    };
    let release = Job::ReleaseAll { sandbox: id() };
    let event = sandboxes.change(&mut worker, id(), release);
    assert_eq!(event, Some(released));
    assert_eq!(
        sandboxes.change(&mut worker, id(), release_ports(&[15001])),
        None
    );
}

#[test]
fn table_of_an_unknown_sandbox_cannot_be_installed() {
    let mut worker = Worker::absent();
    let failed = Sandboxes::default().arm(&mut worker, id(), Wanted::default());
    let is_failed = matches!(failed, Some(Event::Armed { result: Err(_), .. }));
    assert!(is_failed, "{failed:?}");
    assert_eq!(worker.unsent_jobs(), []);
}

/// A host with another network namespace than that of the test.
fn host() -> Host {
    Host {
        proc: ProcRoot::new("/proc"),
        netns: NetnsId { dev: 0, ino: 0 },
        is_certain: true,
    }
}

/// The runtime may have started its containers.
#[tokio::test]
async fn announcement_of_a_plugin_that_has_gone_is_ignored() {
    for is_gone in [false, true] {
        let (plugin, peer) = Connection::pair().unwrap();
        let peer = (!is_gone).then_some(peer);
        let (reply, mut replied) = oneshot::channel();
        let announcement = Announcement {
            request: Request {
                pod: PodName {
                    namespace: "shop".to_owned(),
                    name: "report".to_owned(),
                    uid: None,
                },
                sandbox: id(),
                interface: "eth0".to_owned(),
            },
            netns: own_netns(),
            plugin: Arc::new(plugin),
            reply,
        };
        let mut worker = Worker::absent();
        let mut sandboxes = Sandboxes::default();
        let event = sandboxes.announced(&mut worker, &host(), announcement);
        assert_eq!(matches!(event, Some(Event::Sandbox(_))), !is_gone);
        assert_eq!(sandboxes.open.is_empty(), is_gone);
        let is_dropped = replied.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        assert_eq!(is_dropped, is_gone);
        drop(peer);
    }
}
