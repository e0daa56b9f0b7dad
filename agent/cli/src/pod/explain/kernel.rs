//! What the kernel shows of one pod: the processes of its containers, and the sockets of its network namespace that
//! listen or wait for an answer. Read from `/proc` of the host; nothing of the pod's own files.

use std::{
    fs::File,
    io::{self, Read},
};

use usher_core::{base::id::Pid, node::network::Network};
use usher_inspect::explain::{Process, Seen, Socket};

use crate::{
    data_source::node::{Node, Target},
    network::links,
};

/// Processes of one container that are looked at.
const PROCESSES: usize = 256;
/// A command line, and a status.
const LONGEST_TEXT: u64 = 64 * 1024;
/// A table of sockets: some 100,000 of them. What is beyond is not looked at, which is said.
const LONGEST_TABLE: u64 = 16 * 1024 * 1024;

/// Looks at a pod. One that has no process any more shows nothing.
pub(super) fn look(node: &Node, target: Option<&Target>, gaps: &mut Vec<String>) -> Seen {
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
        network: network(node, target, gaps),
        ..Seen::default()
    }
}

fn network(node: &Node, target: &Target, gaps: &mut Vec<String>) -> Option<Network> {
    // A pod that has ended has no network any more.
    target.running().next()?;
    links::list(node, target)
        .inspect_err(|error| gaps.push(format!("its network: {}", error.text)))
        .ok()
}

fn processes(node: &Node, target: &Target) -> Vec<Process> {
    let named = target.containers.iter();
    let named = named.filter_map(|container| Some((container.name.as_deref()?, container)));
    let all = named.flat_map(|(name, container)| {
        let pids = container.processes.iter().take(PROCESSES);
        pids.filter_map(move |pid| {
            let process = process(node, name, *pid)?;
            target.has(&node.proc, container, *pid).then_some(process)
        })
    });
    all.collect()
}

/// None for a process that has ended.
fn process(node: &Node, container: &str, pid: Pid) -> Option<Process> {
    let read = |file| read(node, pid, file, LONGEST_TEXT).ok();
    let (status, _whole) = read("status")?;
    let (argv, _whole) = read("cmdline")?;
    Process::read(container, pid, &String::from_utf8_lossy(&status), &argv)
}

fn sockets(node: &Node, target: &Target, gaps: &mut Vec<String>) -> Option<Vec<Socket>> {
    // With hostNetwork they would be the node's.
    if target.pod.host_network {
        return None;
    }
    let inits = target.running();
    let inits = inits.filter_map(|container| Some((container, container.init?)));
    for (container, pid) in inits {
        let mut gaps_there = Vec::new();
        let sockets = of_process(node, pid, &mut gaps_there);
        if target.has(&node.proc, container, pid) {
            gaps.extend(gaps_there);
            return sockets;
        }
    }
    Some(Vec::new())
}

/// The sockets of the namespace that a process is in.
fn of_process(node: &Node, pid: Pid, gaps: &mut Vec<String>) -> Option<Vec<Socket>> {
    let mut sockets = Vec::new();
    for file in ["net/tcp", "net/tcp6"] {
        match read(node, pid, file, LONGEST_TABLE) {
            Ok((table, whole)) => {
                sockets.extend(Socket::read_all(&String::from_utf8_lossy(&table)));
                if !whole {
                    gaps.push(format!(
                        "sockets beyond the first {} MiB of {file}",
                        LONGEST_TABLE >> 20
                    ));
                }
            }
            // A kernel without IPv6 has one table, and a process that has ended none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                gaps.push(format!("sockets of its network namespace: {file}: {error}"));
                return None;
            }
        }
    }
    Some(sockets)
}

/// The beginning of a file of a process, and whether that is all of it.
fn read(node: &Node, pid: Pid, file: &str, longest: u64) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let file = File::open(node.proc.path(pid, file))?;
    file.take(longest).read_to_end(&mut bytes)?;
    let whole = (bytes.len() as u64) < longest;
    Ok((bytes, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_source::node::scene::{OTHER, Scene, UID};

    const STATUS: &str = "Name:\tx\nNSpid:\t41\t1\nSigIgn:\t0\nSigCgt:\t0\n";
    const TABLE: &str = "sl\n0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 7\n";

    #[test]
    fn numbers_that_are_anothers_by_now_tell_nothing() {
        let scene = Scene::new(&[41, 42]);
        let files = [("status", STATUS), ("cmdline", "x\0"), ("net/tcp", TABLE)];
        let seen = |uid| {
            scene.process(41, uid, &files);
            scene.process(42, UID, &files);
            let seen = look(&scene.node, Some(&scene.target), &mut Vec::new());
            let pids = seen.processes.unwrap().into_iter();
            let pids: Vec<i32> = pids.map(|process| process.pid.0).collect();
            (pids, seen.sockets.unwrap().len())
        };
        assert_eq!(seen(UID), (vec![41, 42], 1));
        assert_eq!(seen(OTHER), (vec![42], 0));
    }
}
