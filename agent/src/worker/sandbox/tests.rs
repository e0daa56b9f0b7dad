use tokio::sync::mpsc;
use usher_core::hold::ruleset::{GROUP, HeldPort, Ruleset};
use usher_sys::net::{
    netlink::{Protocol, Socket},
    nfqueue::Queue,
    nft,
};

use super::*;

/// A namespace with a table, and another user of its queue. None if it is impossible here.
fn table_with_used_queue() -> Option<(Arc<Netns>, Socket, Queue)> {
    let made = Netns::scratch().ok().and_then(|netns| {
        let queue = nft::probe().ok()?.queue()?;
        Some((netns, queue))
    });
    let Some((netns, queue)) = made else {
        let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!pipeline, "CI=true forbids to skip");
        eprintln!("SKIPPED: needs root and a kernel with NFQUEUE");
        return None;
    };
    let socket = netns.netlink(Protocol::Netfilter).unwrap();
    let wanted = Wanted {
        ports: vec![HeldPort {
            port: 15001,
            timeout: Duration::from_mins(10),
        }],
        dns: Some(queue),
        ..Wanted::default()
    };
    nft::install(&socket, &Ruleset::of(&wanted)).unwrap();
    let holder = Queue::bind(&netns, GROUP).unwrap();
    Some((Arc::new(netns), socket, holder))
}

fn sandboxes() -> (Sandboxes, mpsc::Receiver<Reply>) {
    let (replies, receiver) = Replies::new();
    let lanes = Lanes::new(replies.clone());
    (Sandboxes::new(lanes, replies), receiver)
}

fn id() -> SandboxId {
    SandboxId::parse("5a").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn leftover_table_is_deleted_although_its_queue_is_in_use() {
    let Some((netns, socket, _holder)) = table_with_used_queue() else {
        return;
    };
    let (mut sandboxes, mut replies) = sandboxes();
    let forget = Job::Forget {
        sandbox: id(),
        table: ForgottenTable::LeftoverDeleted,
    };
    sandboxes.order(JobId(1), id(), forget, Some(netns)).await;
    // The task of the sandbox has ended when it has dropped its sender.
    drop(sandboxes);
    assert_eq!(replies.recv().await, None);
    assert_eq!(nft::dump(&socket).unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn table_that_cannot_be_adopted_is_deleted() {
    let Some((netns, socket, _holder)) = table_with_used_queue() else {
        return;
    };
    let (mut sandboxes, mut replies) = sandboxes();
    let adopt = Job::Adopt { sandbox: id() };
    sandboxes.order(JobId(1), id(), adopt, Some(netns)).await;
    let adopted = Reply::Adopted {
        id: JobId(1),
        result: Ok(None),
    };
    assert_eq!(replies.recv().await, Some(adopted));
    assert_eq!(nft::dump(&socket).unwrap(), None);
}

/// An earlier worker that is killed has its sockets until it has exited.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn adoption_waits_for_the_sockets_of_an_earlier_worker() {
    let Some((netns, socket, holder)) = table_with_used_queue() else {
        return;
    };
    let (mut sandboxes, mut replies) = sandboxes();
    let adopt = Job::Adopt { sandbox: id() };
    sandboxes.order(JobId(1), id(), adopt, Some(netns)).await;
    tokio::time::sleep(ADOPT_AGAIN * 3).await;
    drop(holder);
    let reply = replies.recv().await;
    assert!(
        matches!(
            reply,
            Some(Reply::Adopted {
                result: Ok(Some(_)),
                ..
            })
        ),
        "{reply:?}"
    );
    assert!(nft::dump(&socket).unwrap().is_some());
}

/// The agent has given up on an adoption. Nothing is known about the pod yet, so its connections stay held.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn adopted_table_that_was_given_up_stays() {
    for (table, stays) in [
        (ForgottenTable::Kept, true),
        (ForgottenTable::Deleted, false),
    ] {
        let Some((netns, socket, holder)) = table_with_used_queue() else {
            return;
        };
        drop(holder);
        let (mut sandboxes, mut replies) = sandboxes();
        let adopt = Job::Adopt { sandbox: id() };
        sandboxes.order(JobId(1), id(), adopt, Some(netns)).await;
        let sandbox = id();
        let forget = Job::Forget { sandbox, table };
        sandboxes.order(JobId(2), id(), forget, None).await;
        drop(sandboxes);
        let adopted = replies.recv().await;
        assert!(
            matches!(adopted, Some(Reply::Adopted { .. })),
            "{adopted:?}"
        );
        assert_eq!(replies.recv().await, None);
        assert_eq!(nft::dump(&socket).unwrap().is_some(), stays, "{table:?}");
    }
}

/// A released port is no port that the kernel released at its timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn port_that_is_released_twice_has_not_timed_out() {
    let Some((netns, _socket, holder)) = table_with_used_queue() else {
        return;
    };
    drop(holder);
    let (copies, lane) = (NodeCopies::default(), sandboxes().0.lanes.lane(netns.id()));
    let copies = copies.of(&id());
    let adopted = HoldTable::adopt(&netns, Instant::now(), copies, lane, false).unwrap();
    let (mut table, _remains) = adopted.unwrap();
    for _ in 0..2 {
        table.release_ports(&netns, &[15001]).unwrap();
        assert!(!table.timed_out);
    }
}
