//! Many pods that each send more SYNs than the agent keeps copies of, while their connections are held.

use std::net::{Ipv4Addr, SocketAddr};

use usher_sys::net::inject::Injector;
use usher_sys::net::netns::Netns;
use usher_tests::synthetic::limit::{Controller, Limited};
use usher_tests::synthetic::wire::{Capture, Listen};
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec, process};

use crate::is_sound;
use crate::rules::{another_connects, captured, client, holding};

const PODS: usize = 64;
const SYNS: u16 = 4_200;
/// SYNs that the kernel keeps until the agent reads them.
const BURST: u16 = 700;
/// With TCP Fast Open, data follows the header.
const LENGTH: u8 = 190;
/// The memory limit of the chart.
const MEMORY: u64 = 96 * 1024 * 1024;

/// A SYN to a held port, from this port.
fn syn(source: u16) -> Vec<u8> {
    let mut packet = vec![0; usize::from(LENGTH)];
    // IPv4 with a header of 20 bytes, and TCP.
    packet[0] = 0x45;
    packet[3] = LENGTH;
    packet[8] = 64;
    packet[9] = 6;
    packet[12..16].copy_from_slice(&Ipv4Addr::LOCALHOST.octets());
    packet[16..20].copy_from_slice(&Ipv4Addr::LOCALHOST.octets());
    packet[20..22].copy_from_slice(&source.to_be_bytes());
    packet[22..24].copy_from_slice(&Capture::PORT.to_be_bytes());
    // A header of 20 bytes, and the flag.
    packet[32] = 0x50;
    packet[33] = 2;
    packet
}

fn flooding(number: usize) -> PodSpec {
    captured(
        &format!("flood-{number}"),
        [client("app", 1)],
        Listen::OnCommand,
    )
    .annotation("usher.dev/hold-deadline", "10m")
    .annotation("usher.dev/on-deadline", "closed")
}

fn flood(pods: &[Pod]) {
    let injectors: Vec<Injector> = pods
        .iter()
        .map(|pod| Netns::from_fd(pod.network_file().into()).unwrap())
        .map(|netns| Injector::open(&netns).unwrap())
        .collect();
    let held_port = SocketAddr::from((Ipv4Addr::LOCALHOST, Capture::PORT));
    let sources: Vec<u16> = (1..=SYNS).collect();
    for burst in sources.chunks(usize::from(BURST)) {
        for injector in &injectors {
            for source in burst {
                let passed = injector.send(&syn(*source), held_port).unwrap();
                assert!(!passed, "the port is not held");
            }
        }
    }
}

/// An agent that begins in a cgroup.
fn start_within(limited: &Limited, node: &Node) -> Agent {
    let enter = format!("echo $$ > {}; exec \"$@\"", limited.processes().display());
    Agent::start_below(node, "sh", &["-c".to_owned(), enter])
}

/// The agent stays within its memory limit, and so does the agent that follows it.
#[test]
fn of_all_pods_of_a_node() {
    let Some(node) = holding() else { return };
    let limited = Limited::make(Controller::Memory, "syns").expect("a controller of memory");
    limited.set(MEMORY);
    let mut agent = start_within(&limited, &node);
    let specs: Vec<PodSpec> = (0..PODS).map(flooding).collect();
    let pods = node.run_all(&specs);
    for pod in &pods {
        agent.wait_for("hold-armed", &pod.name());
    }
    for name in ["first", "second"] {
        flood(&pods);
        another_connects(&node, &agent, name);
        let state = process::state(agent.pid());
        assert!(!matches!(state, None | Some('Z')), "{name}");
        is_sound(&agent);
        println!("{name} agent: at most {} KiB", agent.usage().peak_kib);
        if name == "first" {
            agent.kill();
            agent = start_within(&limited, &node);
            for pod in &pods {
                agent.wait_for("hold-adopted", &pod.name());
            }
        }
    }
    pods[0].send_line(crate::SIDECAR, "listen");
    let released = agent.wait_for("hold-released", &pods[0].name());
    let reason = released["reason"].as_str().unwrap();
    assert!(
        reason.contains("more continue with their next retransmission"),
        "{reason}"
    );
    let dropped = agent.metric("usher_hold_dropped_copies_total", "");
    assert!(dropped >= f64::from(SYNS - 4096), "{dropped}");
}
