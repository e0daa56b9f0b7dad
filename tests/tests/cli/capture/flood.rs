//! A capture of all traffic that loopback can carry: memory is bounded, and every dropped packet is reported.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::Stdio,
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use usher_tests::synthetic::{self, clock::eventually, usher};

use super::{file, pod, start};
use crate::network::{Beside, inside};

/// Small packets for the count, large ones for the bytes.
const DATAGRAMS: u32 = 200_000;
const BYTES: usize = 1024 * 1024 * 1024;

/// The packets that loopback has received, as the kernel counts them.
fn received(pod: &synthetic::Pod) -> u64 {
    let pid = pod.wait_container("app");
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix("lo:"))
        .unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

fn flood() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = udp.local_addr().unwrap();
    for _ in 0..DATAGRAMS {
        udp.send_to(&[7; 64], to).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    thread::scope(|scope| {
        scope.spawn(move || {
            let part = vec![7; 1024 * 1024];
            for _ in 0..BYTES / part.len() {
                client.write_all(&part).unwrap();
            }
        });
        let mut part = vec![0; 1024 * 1024];
        while server.read(&mut part).unwrap() > 0 {}
    });
}

/// The packets of a file, and its counts of received and dropped packets.
fn counts(file: &Path) -> (u64, u64, u64) {
    let bytes = std::fs::read(file).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut packets, mut received, mut dropped) = (0, 0, 0);
    let mut at = 0;
    while at < bytes.len() {
        let (kind, length) = (number(at), number(at + 4) as usize);
        assert_eq!(number(at + length - 4) as usize, length, "at {at}");
        packets += u64::from(kind == 6);
        if kind == 5 {
            let mut option = at + 20;
            while number(option) != 0 {
                let (code, size) = (number(option) & 0xffff, number(option) >> 16);
                match code {
                    4 => received += u64::from(number(option + 4)),
                    5 => dropped += u64::from(number(option + 4)),
                    _ => {}
                }
                option += 4 + size.next_multiple_of(4) as usize;
            }
        }
        at += length;
    }
    (packets, received, dropped)
}

fn peak_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.split_ascii_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn every_dropped_packet_is_reported() {
    let Some((node, pod)) = pod("flooded") else {
        return;
    };
    let into = file(&node, "flood.pcapng");
    let capture = start(
        &node,
        &pod,
        &into,
        &["-i", "lo", "--snaplen", "128", "--size", "1GiB"],
    );
    let before = received(&pod);
    inside(&pod, flood);
    // The output is not read for a while, so the ring fills up soon.
    kill(Pid::from_raw(capture.pid()), Signal::SIGSTOP).unwrap();
    inside(&pod, flood);
    kill(Pid::from_raw(capture.pid()), Signal::SIGCONT).unwrap();
    let sent = received(&pod) - before;
    let peak = peak_kib(capture.pid());
    let (code, stderr) = capture.end(Signal::SIGINT);
    assert_eq!(code, Some(0), "{stderr}");
    let (packets, accepted, dropped) = counts(&into);
    eprintln!("{sent} sent; {packets} captured, {dropped} dropped; at most {peak} KiB; {stderr}");
    assert_eq!(accepted, sent);
    assert_eq!(packets + dropped, sent);
    assert!(
        stderr.contains(&format!("{packets} packets in ")),
        "{stderr}"
    );
    assert!(dropped > 0, "nothing was dropped");
    let loss = format!("{dropped} of {accepted} DROPPED by the kernel");
    assert!(stderr.contains(&loss), "{stderr}");
    // The ring, a buffer, and the program itself.
    assert!(peak < 40 * 1024, "{peak} KiB");
}

#[test]
fn size_limits_the_file() {
    let Some((node, pod)) = pod("bounded") else {
        return;
    };
    let into = file(&node, "bounded.pcapng");
    let mut capture = start(&node, &pod, &into, &["--size", "1MiB"]);
    inside(&pod, || {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2000 {
            udp.send_to(&[7; 1000], udp.local_addr().unwrap()).unwrap();
        }
    });
    let (code, stderr) = capture.wait();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("ended: --size reached"), "{stderr}");
    let length = std::fs::metadata(&into).unwrap().len();
    assert!((900_000..=1024 * 1024).contains(&length), "{length}");
    assert!(
        stderr.contains(&format!("({length} bytes written)")),
        "{stderr}"
    );
    let (packets, accepted, dropped) = counts(&into);
    assert!(
        packets > 800 && accepted >= packets + dropped,
        "{packets} {accepted} {dropped}"
    );
    assert!(
        stderr.contains("more received and not captured"),
        "{stderr}"
    );
}

#[test]
fn stalled_reader_does_not_block_the_end() {
    let Some((node, pod)) = pod("stuck") else {
        return;
    };
    let udp = inside(&pod, || UdpSocket::bind("127.0.0.1:0").unwrap());
    let to = udp.local_addr().unwrap();
    let mut command = usher::command_on(&node);
    // Long enough to fill the pipe on a busy machine.
    command
        .args(["capture", &pod.name(), "-w", "-", "--duration", "5s"])
        .stdout(Stdio::piped());
    let mut capture = Beside::start(command);
    let _unread = capture.0.stdout.take();
    eventually("its end", || {
        for _ in 0..1000 {
            udp.send_to(&[7; 1000], to).unwrap();
        }
        std::fs::read_to_string(format!("/proc/{}/stat", capture.pid()))
            .map_or(true, |stat| stat.contains(") Z "))
    });
    let (code, stderr) = capture.wait();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("the reader is blocked"), "{stderr}");
}
