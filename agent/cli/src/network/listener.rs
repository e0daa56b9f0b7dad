//! TCP listeners of a pod, with the containers that own them: the kernel's table of the pod's network namespace
//! ([proc_net(5)](https://man7.org/linux/man-pages/man5/proc_net.5.html)), joined with the sockets of the containers' processes.
//!
//! The result is additional information for a command: unreadable data is omitted, and reading is bounded.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
};

use usher_core::base::id::Pid;
use usher_sys::pods::proc::ProcRoot;

use crate::data_source::node::Target;

/// The kernel writes listeners first: this is enough for some 6,000 of them.
const MAX_TABLE_BYTES: u64 = 1024 * 1024;
/// Limit of descriptors that are read for one pod.
const MAX_DESCRIPTORS: usize = 65_536;

/// State of a listening socket, and the columns of the table.
const LISTENS: &str = "0A";
const ADDRESS: usize = 1;
const STATE: usize = 3;
const INODE: usize = 9;

/// The listening ports, each with the known containers that listen there.
pub(crate) fn listeners(proc: &ProcRoot, target: &Target) -> BTreeMap<u16, Vec<String>> {
    let sockets = target
        .running()
        .find_map(|container| {
            let init = container.init?;
            let sockets = table(proc, init);
            target.has(proc, container, init).then_some(sockets)
        })
        .unwrap_or_default();
    let mut ports: BTreeMap<u16, Vec<String>> = sockets
        .iter()
        .map(|(port, _)| (*port, Vec::new()))
        .collect();
    let by_inode: BTreeMap<u64, u16> = sockets
        .into_iter()
        .map(|(port, inode)| (inode, port))
        .collect();
    let mut left = MAX_DESCRIPTORS;
    for container in target.running() {
        let Some(name) = &container.name else {
            continue;
        };
        for pid in &container.processes {
            let inodes = inodes(proc, *pid, &mut left);
            if !target.has(proc, container, *pid) {
                continue;
            }
            for inode in inodes {
                let owners = by_inode.get(&inode).and_then(|port| ports.get_mut(port));
                if let Some(owners) = owners.filter(|owners| !owners.contains(name)) {
                    owners.push(name.clone());
                }
            }
        }
    }
    ports
}

/// Each port with its containers, as text.
pub(crate) fn texts(listeners: &BTreeMap<u16, Vec<String>>) -> Vec<String> {
    let ports = listeners.iter().map(|(port, owners)| match &owners[..] {
        [] => port.to_string(),
        owners => format!("{port} ({})", owners.join(", ")),
    });
    ports.collect()
}

/// The listeners of the network namespace of a process.
fn table(proc: &ProcRoot, pid: Pid) -> Vec<(u16, u64)> {
    let tables = ["net/tcp", "net/tcp6"].into_iter();
    tables
        .flat_map(|table| File::open(proc.path(pid, table)))
        .flat_map(|table| BufReader::new(table.take(MAX_TABLE_BYTES)).lines().skip(1))
        .map_while(Result::ok)
        .filter_map(|line| listener(&line))
        .collect()
}

/// Port and inode of a line that describes a listener.
fn listener(line: &str) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(INODE + 1).collect();
    let (_address, port) = fields.get(ADDRESS)?.rsplit_once(':')?;
    if *fields.get(STATE)? != LISTENS {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((port, fields.get(INODE)?.parse().ok()?))
}

/// The sockets of a process.
fn inodes(proc: &ProcRoot, pid: Pid, left: &mut usize) -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir(proc.path(pid, "fd")) else {
        return Vec::new();
    };
    let descriptors = descriptors.take(*left).map_while(Result::ok);
    let mut inodes = Vec::new();
    for descriptor in descriptors {
        *left = left.saturating_sub(1);
        let inode = fs::read_link(descriptor.path()).ok().and_then(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse::<u64>().ok()
        });
        inodes.extend(inode);
    }
    inodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_source::node::fixture::{Fixture, OTHER, UID};

    #[test]
    fn reused_pids_are_ignored() {
        let fixture = Fixture::new(&[41]);
        let table = "sl\n0: 0100007F:3A98 0:0 0A 0:0 0:0 0 0 0 4242\n";
        let of = |uid| {
            fixture.process(41, uid, &[("net/tcp", table)]);
            listeners(&fixture.node.proc, &fixture.target)
        };
        assert_eq!(of(UID), BTreeMap::from([(15000, Vec::new())]));
        assert_eq!(of(OTHER), BTreeMap::new());
    }

    #[test]
    fn table_lines_are_parsed() {
        let line = "   0: 0100007F:3A98 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1337        0 4242 1 0";
        assert_eq!(listener(line), Some((15000, 4242)));
        let v6 = "1: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 7";
        assert_eq!(listener(v6), Some((8080, 7)));
        for other in [
            line.replace(" 0A ", " 01 "),
            line.replace("3A98", "x"),
            line[..60].to_owned(),
            String::new(),
        ] {
            assert_eq!(listener(&other), None, "{other}");
        }
    }
}
