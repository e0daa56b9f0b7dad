//! The same sockets as `ss`, in the same words.

use std::collections::BTreeMap;
use std::process::Command;

use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::Holding;
use usher_tests::synthetic::{Node, Pod};

use super::{EXCLUDED, FAR, meshed};
use crate::{answer, enforcing};

/// Protocol, state, two queues, two ends; and their number.
type Sockets = BTreeMap<[String; 6], usize>;

fn by_ss(pod: &Pod) -> Sockets {
    let output = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["ss", "-H", "-tuan"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    count(&String::from_utf8(output.stdout).unwrap())
}

fn by_usher(node: &Node, pod: &Pod) -> Sockets {
    count(&answer(
        node,
        &["conns", &pod.name(), "--all", "--no-headers"],
    ))
}

/// The first six words of each line, after the differences of format are removed.
fn count(text: &str) -> Sockets {
    let mut sockets = Sockets::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [protocol, state, receive, send, local, peer, ..] = words[..] else {
            panic!("{line}");
        };
        // A listener's queue is one column of usher: length and limit.
        let (receive, send) = receive.split_once('/').unwrap_or((receive, send));
        let peer = if peer.ends_with(":*") { "*:*" } else { peer };
        let key = [protocol, state, receive, send, local, peer].map(str::to_owned);
        *sockets.entry(key).or_default() += 1;
    }
    sockets
}

#[test]
fn sockets_match_ss() {
    if !privilege::granted_with(&["nft", "nsenter", "ss"]) {
        return;
    }
    let Some(node) = enforcing() else { return };
    let app = Holding::default()
        .listening("0.0.0.0:8080")
        .listening("[::1]:8081")
        .ignoring("127.0.0.1:8082")
        .datagram("127.0.0.1:5353", None)
        .datagram("[::]:5354", None)
        .datagram("127.0.0.1:5355", Some("127.0.0.1:5353"))
        .connected("127.0.0.1:8080", 3)
        .connected("[::1]:8081", 2)
        .connected("127.0.0.1:8082", 4)
        .connected(FAR, 5)
        .connecting(EXCLUDED);
    let pod = meshed(&node, "agree", app);
    // A socket that is accepted a moment later changes both lists.
    eventually("the same sockets by both", || {
        let (ss, usher) = (by_ss(&pod), by_usher(&node, &pod));
        let total: usize = ss.values().sum();
        // 2 + 3 listeners, 3 datagrams, both ends of 14 connections, one that waits.
        if total != 37 {
            return false;
        }
        assert!(ss.keys().any(|key| key[1] == "SYN-SENT"), "{ss:?}");
        ss == usher
    });
    let listening = count(&answer(
        &node,
        &["conns", &pod.name(), "--listening", "--tcp", "--no-headers"],
    ));
    assert!(
        listening
            .keys()
            .all(|key| key[0] == "tcp" && key[1] == "LISTEN")
    );
    assert_eq!(listening.values().sum::<usize>(), 5);
    let waiting = listening.keys().find(|key| key[4] == "127.0.0.1:8082");
    assert_eq!(waiting.unwrap()[2], "4", "{listening:?}");
}
