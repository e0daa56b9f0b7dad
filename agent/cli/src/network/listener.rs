//! Who listens at which TCP port of a pod: the kernel's table of its network namespace
//! ([proc_net(5)](https://man7.org/linux/man-pages/man5/proc_net.5.html)), and which container's process has the socket.
//!
//! For a word beside what a command shows. What cannot be read is left out, and there is an end to what is read.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
};

use usher_core::base::id::Pid;
use usher_sys::pods::proc::ProcRoot;

use crate::data_source::node::Target;

/// The kernel writes listeners first: this is room for some 6,000 of them.
const MOST_TABLE: u64 = 1024 * 1024;
/// Descriptors that are looked at in all of a pod.
const MOST_DESCRIPTORS: usize = 65_536;

/// State of a socket that waits for connections, and where the table has what.
const LISTENS: &str = "0A";
const ADDRESS: usize = 1;
const STATE: usize = 3;
const INODE: usize = 9;

/// Each port at which somebody listens, with the containers that do, as far as they can be told.
pub(crate) fn listeners(proc: &ProcRoot, target: &Target) -> BTreeMap<u16, Vec<String>> {
    let sockets = target.running().find_map(|container| {
        let init = container.init?;
        let sockets = table(proc, init);
        target.has(proc, container, init).then_some(sockets)
    });
    let sockets = sockets.unwrap_or_default();
    let mut ports: BTreeMap<u16, Vec<String>> = sockets
        .iter()
        .map(|(port, _)| (*port, Vec::new()))
        .collect();
    let by_inode: BTreeMap<u64, u16> = sockets
        .into_iter()
        .map(|(port, inode)| (inode, port))
        .collect();
    let mut left = MOST_DESCRIPTORS;
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

/// The listeners of the namespace that a process is in.
fn table(proc: &ProcRoot, pid: Pid) -> Vec<(u16, u64)> {
    let tables = ["net/tcp", "net/tcp6"].into_iter();
    tables
        .flat_map(|table| File::open(proc.path(pid, table)))
        .flat_map(|table| BufReader::new(table.take(MOST_TABLE)).lines().skip(1))
        .map_while(Result::ok)
        .filter_map(|line| listener(&line))
        .collect()
}

/// A line of the table: port and inode, where it is a listener's.
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
    use crate::data_source::node::scene::{OTHER, Scene, UID};

    #[test]
    fn numbers_that_are_anothers_by_now_tell_nothing() {
        let scene = Scene::new(&[41]);
        let table = "sl\n0: 0100007F:3A98 0:0 0A 0:0 0:0 0 0 0 4242\n";
        let of = |uid| {
            scene.process(41, uid, &[("net/tcp", table)]);
            listeners(&scene.node.proc, &scene.target)
        };
        assert_eq!(of(UID), BTreeMap::from([(15000, Vec::new())]));
        assert_eq!(of(OTHER), BTreeMap::new());
    }

    #[test]
    fn lines_of_the_table() {
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
