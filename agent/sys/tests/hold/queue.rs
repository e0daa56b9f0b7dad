//! Packets that wait in a queue.

use std::{io::ErrorKind, net::UdpSocket, process::Command};

use usher_sys::net::nfqueue::{Error, MOST_PACKETS, QUEUE, Queue};

use crate::scratch::{inside, skipped, soon};

/// A DNS server and its client, and a rule that queues their packets.
fn resolver() -> Option<(UdpSocket, UdpSocket)> {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let client = client_of(&server);
    if !change_rule("-A", &server) {
        skipped("needs the program iptables and its target NFQUEUE");
        return None;
    }
    Some((server, client))
}

/// Adds or deletes the rule that queues the packets to a server.
fn change_rule(command: &str, server: &UdpSocket) -> bool {
    let port = server.local_addr().unwrap().port().to_string();
    let rule = ["-w", command, "OUTPUT", "-p", "udp", "--dport", &port, "-j"];
    let queue = QUEUE.to_string();
    let target = ["NFQUEUE", "--queue-num", &queue, "--queue-bypass"];
    let iptables = Command::new("iptables").args(rule).args(target).output();
    iptables.is_ok_and(|done| done.status.success())
}

fn client_of(server: &UdpSocket) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_nonblocking(true).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    client
}

fn received(server: &UdpSocket) -> Option<u32> {
    let mut number = [0; 4];
    match server.recv(&mut number) {
        Ok(4) => Some(u32::from_be_bytes(number)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn packets_are_released_in_order() {
    inside(|netns| async move {
        let Some((server, client)) = resolver() else {
            return;
        };
        let send = |number: u32| client.send(&number.to_be_bytes());
        let queue = Queue::bind(&netns, QUEUE).unwrap();
        // Releasing an empty queue is not an error.
        queue.repeat_all().unwrap();
        for round in 0..3 {
            let first = round * 100;
            for number in first..first + 100 {
                send(number).unwrap();
            }
            // The rule queues them again.
            queue.repeat_all().unwrap();
            assert_eq!(received(&server), None);
            assert!(change_rule("-D", &server));
            queue.repeat_all().unwrap();
            let all: Vec<_> = std::iter::from_fn(|| received(&server)).collect();
            assert_eq!(all, (first..first + 100).collect::<Vec<_>>());
            assert!(change_rule("-A", &server));
        }
        // Without a queue the rule passes packets.
        drop(queue);
        soon(|| waiting().is_none()).await;
        send(7).unwrap();
        assert_eq!(received(&server), Some(7));
    });
}

#[test]
fn receive_buffer_fits_a_full_queue() {
    inside(|netns| async move {
        let Some((server, client)) = resolver() else {
            return;
        };
        let queue = Queue::bind(&netns, QUEUE).unwrap();
        // Several senders, because queued packets occupy the sender's buffer.
        let clients = [(); 8].map(|()| client_of(&server));
        for number in 0..MOST_PACKETS {
            let client = &clients[number as usize % clients.len()];
            client.send(&number.to_be_bytes()).unwrap();
        }
        // The next packet is dropped.
        client.send(&[0; 4]).unwrap();
        assert_eq!(waiting(), Some(MOST_PACKETS));
        // Each packet that is queued again has another notification.
        for _ in 0..4 {
            queue.repeat_all().unwrap();
            assert_eq!(waiting(), Some(MOST_PACKETS));
        }
        assert!(change_rule("-D", &server));
        queue.repeat_all().unwrap();
        assert_eq!(waiting(), Some(0));
        assert!(change_rule("-A", &server));
        // The server's buffer has no room for all.
        assert_eq!(received(&server), Some(0));
        client.send(&[0; 4]).unwrap();
        assert_eq!(waiting(), Some(1));
    });
}

/// Number of queued packets according to the kernel; None without a queue.
fn waiting() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue");
    let text = text.unwrap();
    let count = text.split_whitespace().nth(2);
    count.map(|count| count.parse().unwrap())
}

#[test]
fn a_queue_has_one_holder() {
    inside(|netns| async move {
        let queue = Queue::bind(&netns, QUEUE).unwrap();
        let error = Queue::bind(&netns, QUEUE).unwrap_err();
        assert!(matches!(error, Error::Bind { .. }), "{error:?}");
        drop(queue);
        soon(|| Queue::bind(&netns, QUEUE).is_ok()).await;
    });
}
