//! `usher capture`, compared with tcpdump and read by tshark.

mod flood;
mod place;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::sys::signal::Signal;
use usher_cluster::programs::{self, Wireshark};
use usher_tests::{
    privilege,
    synthetic::{
        ContainerSpec, Node, Pod, PodSpec, catalog::mesh, clock::eventually, usher, wire::Listen,
    },
};

use crate::network::{Beside, has, inside};

/// An address behind the pod's interface.
const FAR: &str = "10.7.7.7:8080";
/// The payload of the last packet of a test.
const LAST: &[u8] = b"the last of them";
/// The fields that tshark prints of each packet: addresses, order, and every byte of the payload.
const FIELDS: [&str; 18] = [
    "ip.src",
    "ip.dst",
    "ip.id",
    "ip.proto",
    "ip.checksum",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.checksum",
    "tcp.payload",
    "udp.srcport",
    "udp.dstport",
    "udp.payload",
    "icmp.type",
];
/// The next hop to it, as a neighbour of the pod's interface. No host has its hardware address.
const NEIGHBOUR: [&str; 5] = ["10.7.0.1", "lladdr", "02:00:00:00:00:07", "dev", "e0"];
/// A packet that leaves the pod.
const LEAVES: &str = "ip.dst == 10.7.7.7";
/// Excludes the packets that the kernel sends on a new interface.
const OURS: &str = "ip.addr == 127.0.0.1 or ipv6.addr == ::1 or ip.dst == 10.7.7.7";

/// A node, and a pod with loopback, another interface and a sidecar that listens.
fn pod(name: &str) -> Option<(Node, Pod)> {
    let node = privilege::granted_with(&["ip", "nsenter", "setpriv"]).then(Node::new)?;
    let mut spec = PodSpec::new(name)
        .with(ContainerSpec::app("app"))
        .with(mesh::proxy(Listen::AtOnce));
    spec.routed = true;
    let pod = node.run(&spec);
    // Otherwise no packet leaves: no neighbour replies.
    let added = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["ip", "neighbour", "replace"])
        .args(NEIGHBOUR)
        .args(["nud", "permanent"])
        .status()
        .unwrap();
    assert!(added.success());
    Some((node, pod))
}

/// Starts a capture into this file and waits until it has started.
fn start(node: &Node, pod: &Pod, file: &Path, more: &[&str]) -> Beside {
    let mut command = usher::command_on(node);
    command
        .args(["capture", &pod.name(), "-w"])
        .arg(file)
        .args(more);
    let capture = Beside::start(command);
    eventually("the file's beginning", || {
        std::fs::metadata(file).is_ok_and(|file| file.len() > 0)
    });
    capture
}

/// Traffic of every kind: TCP and UDP on both loopbacks, ICMP, and packets that leave the pod. The last packet is marked.
fn traffic() {
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(loopback).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        client.write_all(&[b'x'; 100_000]).unwrap();
        drop(client);
        server.read_to_end(&mut Vec::new()).unwrap();
        let udp = UdpSocket::bind(loopback).unwrap();
        for size in [0, 1, 1400, 9000] {
            udp.send_to(&vec![b'y'; size], udp.local_addr().unwrap())
                .unwrap();
        }
        // There is no listener: the answer is ICMP.
        let gone = UdpSocket::bind(loopback).unwrap().local_addr().unwrap();
        udp.send_to(b"to a closed port", gone).unwrap();
    }
    let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
    udp.send_to(b"far away", FAR).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(LAST, udp.local_addr().unwrap()).unwrap();
}

/// The output of tshark for a file.
fn read(tools: &Wireshark, file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut tshark = tools.tshark();
    tshark
        .arg("-nr")
        .arg(file)
        .args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().map(str::to_owned).collect()
}

fn file(node: &Node, name: &str) -> PathBuf {
    node.run_dir().join(name)
}

#[test]
fn tshark_reads_the_packets_that_tcpdump_captured() {
    let Some((node, pod)) = pod("captured") else {
        return;
    };
    let tools = programs::wireshark().unwrap();
    let (ours, theirs) = (file(&node, "ours.pcapng"), file(&node, "theirs.pcap"));
    let mut tcpdump = tools.tcpdump(&pod.network_path());
    // Otherwise its ring has room for eight packets.
    let room = ["-B", "65536"];
    tcpdump.args(["-i", "any", "-U", "--immediate-mode", "-Z", "root"]);
    tcpdump.args(room).arg("-w").arg(&theirs);
    let mut tcpdump = Beside::start(tcpdump);
    let mut startup = BufReader::new(tcpdump.0.stderr.take().unwrap()).lines();
    assert!(startup.any(|line| line.unwrap().contains("listening on")));
    let capture = start(&node, &pod, &ours, &[]);
    inside(&pod, traffic);
    // The capture is terminated at once, with packets in flight.
    let (code, stderr) = capture.end(Signal::SIGINT);
    assert_eq!(code, Some(0), "{stderr}");
    eventually("the last packet in tcpdump's file", || has(&theirs, LAST));
    drop(tcpdump);

    let [mut ours_read, mut theirs_read] =
        [&ours, &theirs].map(|file| read(&tools, file, OURS, &FIELDS));
    assert!(ours_read.len() > 20, "{ours_read:?}");
    ours_read.sort_unstable();
    theirs_read.sort_unstable();
    assert_eq!(ours_read, theirs_read);
    assert!(
        stderr.contains("none dropped by the kernel; ended: signal"),
        "{stderr}"
    );

    let interfaces = read(
        &tools,
        &ours,
        OURS,
        &["frame.interface_name", "frame.packet_flags_direction"],
    );
    let far = read(
        &tools,
        &ours,
        LEAVES,
        &["frame.interface_name", "frame.packet_flags_direction"],
    );
    assert!(
        interfaces.iter().any(|line| line.starts_with("lo\t")),
        "{interfaces:?}"
    );
    // It leaves by one end of the pair of interfaces, and arrives at the other.
    assert_eq!(far, ["e0\t0x00000002", "e1\t0x00000001"]);
}

#[test]
fn comments_name_the_listening_container() {
    let Some((node, pod)) = pod("commented") else {
        return;
    };
    let tools = programs::wireshark().unwrap();
    let ours = file(&node, "ours.pcapng");
    let capture = start(
        &node,
        &pod,
        &ours,
        &["--port", "15001,15021", "--protocol", "tcp"],
    );
    inside(&pod, || {
        drop(TcpStream::connect("127.0.0.1:15001").unwrap());
        traffic();
    });
    let (code, stderr) = capture.end(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{stderr}");
    let comments = read(
        &tools,
        &ours,
        "frame",
        &["tcp.dstport", "tcp.flags", "frame.comment"],
    );
    assert_eq!(comments[0], "15001\t0x0002\tto istio-proxy's port 15001");
    assert!(
        comments[1..]
            .iter()
            .all(|line| line.contains("15001") || line.starts_with(char::is_numeric))
    );
    assert!(
        comments[1..].iter().all(|line| line.ends_with('\t')),
        "{comments:?}"
    );
    // The rest of the traffic is to other ports.
    assert!(!has(&ours, LAST));
}

#[test]
fn text_output_stops_at_count() {
    let Some((node, pod)) = pod("lines") else {
        return;
    };
    let mut command = usher::command_on(&node);
    command.args(["capture", &pod.name(), "--port", "15001", "--count", "12"]);
    command.stdout(Stdio::piped());
    let mut capture = Beside::start(command);
    let mut lines = BufReader::new(capture.0.stdout.take().unwrap());
    let mut stdout = String::new();
    // Connections until one is captured: the capture may not have started.
    eventually("its end", || {
        inside(&pod, || {
            drop(TcpStream::connect("127.0.0.1:15001").unwrap());
        });
        std::fs::read_to_string(format!("/proc/{}/stat", capture.pid()))
            .map_or(true, |stat| stat.contains(") Z "))
    });
    lines.read_to_string(&mut stdout).unwrap();
    let (code, stderr) = capture.wait();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("12 packets in "), "{stderr}");
    assert!(stderr.contains("ended: --count reached"), "{stderr}");
    assert_eq!(stdout.lines().count(), 12, "{stdout}");
    // The capture may have started in the middle of a connection.
    let first = stdout.lines().find(|line| line.contains("[S]")).unwrap();
    for words in [
        " lo       -   tcp  127.0.0.1:",
        " > 127.0.0.1:15001 [S] payload 0 length 74  (to istio-proxy's port 15001)",
    ] {
        assert!(first.contains(words), "{stdout}");
    }
}

#[test]
fn closed_reader_ends_the_capture() {
    let Some((node, pod)) = pod("unread") else {
        return;
    };
    let mut command = usher::command_on(&node);
    command
        .args(["capture", &pod.name(), "-w", "-"])
        .stdout(Stdio::piped());
    let mut capture = Beside::start(command);
    let mut out = capture.0.stdout.take().unwrap();
    let mut first = [0; 4];
    out.read_exact(&mut first).unwrap();
    assert_eq!(first, [0x0a, 0x0d, 0x0d, 0x0a]);
    // No packet arrives.
    drop(out);
    let (code, stderr) = capture.wait();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("the reader closed the output"), "{stderr}");
}
