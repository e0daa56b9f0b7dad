//! The kernel's data about one pod: the processes of its containers, from the node's `/proc`, and the TCP sockets of
//! its network namespace that listen or connect, from sock_diag. No file of the pod is read.

use std::{
    fs::File,
    io::{self, Read},
};

use usher_client::error_chain::chain;
use usher_core::{
    base::id::Pid,
    node::{
        network::Network,
        socket::{Protocol, Socket, State},
    },
};
use usher_inspect::explain::{Attempts, Process, Seen};
use usher_sys::net::{
    netlink::Protocol as Netlink,
    nft::{self, ChainKind, ForeignChain, Hook, HookPoint},
    sockdiag::{Sockets, Wanted},
};

use crate::{
    data_source::node::{Node, Target},
    network::links,
};

/// The limit for one container.
const MAX_PROCESSES: usize = 256;
/// The limit for a command line and for a status.
const MAX_TEXT: u64 = 64 * 1024;
const MAX_SOCKETS: usize = 4096;

/// The result is empty for a pod without a process.
pub(super) fn inspect(node: &Node, target: Option<&Target>, gaps: &mut Vec<String>) -> Seen {
    let Some(target) = target else {
        return Seen {
            processes: Some(Vec::new()),
            sockets: Some(Vec::new()),
            ..Seen::default()
        };
    };
    Seen {
        processes: Some(processes(node, target)),
        sockets: sockets(node, target, gaps),
        attempts: attempts(node, target),
        redirect: redirect(node, target),
        network: network(node, target, gaps),
        ..Seen::default()
    }
}

fn network(node: &Node, target: &Target, gaps: &mut Vec<String>) -> Option<Network> {
    // An ended pod has no network namespace.
    target.running().next()?;
    links::list(node, target)
        .inspect_err(|error| gaps.push(format!("its network: {}", error.text)))
        .ok()
}

fn processes(node: &Node, target: &Target) -> Vec<Process> {
    target
        .containers
        .iter()
        .filter_map(|container| Some((container.name.as_deref()?, container)))
        .flat_map(|(name, container)| {
            let pids = container.processes.iter().take(MAX_PROCESSES);
            pids.filter_map(move |pid| {
                let process = process(node, name, *pid)?;
                // The pid may belong to another process by now.
                target.has(&node.proc, container, *pid).then_some(process)
            })
        })
        .collect()
}

/// None if the process has exited.
fn process(node: &Node, container: &str, pid: Pid) -> Option<Process> {
    let status = read(node, pid, "status").ok()?;
    let cmdline = read(node, pid, "cmdline").ok()?;
    Process::parse(container, pid, &String::from_utf8_lossy(&status), &cmdline)
}

fn read(node: &Node, pid: Pid, file: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(node.proc.path(pid, file))?;
    file.take(MAX_TEXT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The connection attempts in the pod's own network namespace.
fn attempts(node: &Node, target: &Target) -> Option<Attempts> {
    if target.pod.host_network {
        return None;
    }
    target.running().find_map(|container| {
        let pid = container.init?;
        let snmp = read(node, pid, "net/snmp").ok()?;
        // The pid may belong to another process by now.
        let is_ours = target.has(&node.proc, container, pid);
        is_ours.then(|| Attempts::parse(&String::from_utf8_lossy(&snmp)))?
    })
}

/// A chain of another program that redirects the pod's outbound connections, as a mesh's does.
fn redirect(node: &Node, target: &Target) -> Option<String> {
    if target.pod.host_network || target.running().next().is_none() {
        return None;
    }
    let socket = target.netns(node).ok()?.netlink(Netlink::Netfilter).ok()?;
    let chains = nft::foreign_tables(&socket).ok()?.chains;
    let is_redirect = |chain: &&ForeignChain| {
        let redirects = |hook: Hook| (hook.kind, hook.point) == (ChainKind::Nat, HookPoint::Output);
        chain.rules > 0 && chain.hook.is_some_and(redirects)
    };
    let ForeignChain {
        family,
        table,
        chain,
        ..
    } = chains.iter().find(is_redirect)?;
    Some(format!("{family} {table} {chain}"))
}

fn sockets(node: &Node, target: &Target, gaps: &mut Vec<String>) -> Option<Vec<Socket>> {
    // A pod with hostNetwork shares the node's sockets.
    if target.pod.host_network {
        return None;
    }
    if target.running().next().is_none() {
        return Some(Vec::new());
    }
    let netns = match target.netns(node) {
        Ok(netns) => netns,
        Err(failure) => {
            gaps.push(format!(
                "sockets of its network namespace: {}",
                failure.text
            ));
            return None;
        }
    };
    let mut found = Vec::new();
    let mut more = 0_usize;
    let dumped = Sockets::open(&netns).and_then(|mut sockets| {
        let wanted = Wanted {
            protocols: vec![Protocol::Tcp],
            detail: false,
        };
        sockets.dump(&wanted, |socket| match socket.state {
            State::Listen | State::SynSent if found.len() < MAX_SOCKETS => found.push(socket),
            State::Listen | State::SynSent => more += 1,
            _ => {}
        })
    });
    match dumped {
        Ok(dumped) if dumped.absent.is_empty() => {}
        Ok(_) => {
            gaps.push("sockets of its network namespace: the kernel has no tcp_diag".to_owned());
            return None;
        }
        Err(error) => {
            gaps.push(format!(
                "sockets of its network namespace: {}",
                chain(&error)
            ));
            return None;
        }
    }
    if more > 0 {
        gaps.push(format!("{more} sockets beyond the first {MAX_SOCKETS}"));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_source::node::fixture::{Fixture, OTHER, UID};

    const STATUS: &str = "Name:\tx\nNSpid:\t41\t1\nSigIgn:\t0\nSigCgt:\t0\n";

    /// The readiness of a pidfd needs the reactor.
    #[tokio::test(flavor = "current_thread")]
    async fn reused_pid_is_ignored() {
        let fixture = Fixture::new(&[41, 42]);
        let files = [("status", STATUS), ("cmdline", "x\0")];
        let seen = |uid| {
            fixture.process(41, uid, &files);
            fixture.process(42, UID, &files);
            let seen = inspect(&fixture.node, Some(&fixture.target), &mut Vec::new());
            let pids = seen.processes.unwrap().into_iter();
            pids.map(|process| process.pid.0).collect::<Vec<_>>()
        };
        assert_eq!(seen(UID), [41, 42]);
        assert_eq!(seen(OTHER), [42]);
    }
}
