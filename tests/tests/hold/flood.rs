//! A worker that does not read, and more connections than the kernel keeps copies of (`ENOBUFS`).

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Pod};

use crate::{FAR, armed, connected, eventually, holding, opened, pod, ready};

/// They retry after 1, 3 and 7 seconds, each time with a copy; the buffer has room for some 2,500.
const CONNECTIONS: usize = 900;
/// Columns of `/proc/net/netlink`: protocol and dropped messages.
const PROTOCOL: usize = 1;
const DROPS: usize = 8;
const NETFILTER: &str = "12";

/// The dropped copies in a pod.
fn dropped(pod: &Pod) -> u64 {
    let path = format!("/proc/{}/net/netlink", pod.pid("app"));
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_netfilter = rows.filter(|row| row.get(PROTOCOL) == Some(&NETFILTER));
    let drops = of_netfilter.filter_map(|row| row.get(DROPS)?.parse::<u64>().ok());
    drops.sum()
}

#[test]
fn dropped_copies_are_counted_and_their_connections_continue() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let app = ContainerSpec::client("app", Client::to(FAR).times(CONNECTIONS)).later();
    let pod = node.create(&pod("flood", app, mesh::proxy(Listen::OnCommand)));
    armed(&agent, &pod);
    agent.signal_worker(Signal::SIGSTOP);
    pod.start("app");
    eventually("copies to find no room", || dropped(&pod) > 0);
    ready(&pod);
    agent.signal_worker(Signal::SIGCONT);
    let why = opened(&agent, &pod);
    assert!(
        why.contains("more continue with their next retransmission"),
        "{why}"
    );
    connected(&pod.client_result("app"), CONNECTIONS);
}
