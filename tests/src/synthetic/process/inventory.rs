//! Open descriptors of a process: `/proc/<pid>/fd`, `/proc/<pid>/fdinfo` and the tables of sockets below `/proc/<pid>/net`
//! ([proc_pid_fdinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_fdinfo.5.html)).

use std::collections::{BTreeMap, HashMap};
use std::fs;

/// The tables of sockets, and the index of the inode in a line.
const TABLES: [(&str, usize); 8] = [
    ("tcp", 9),
    ("tcp6", 9),
    ("udp", 9),
    ("udp6", 9),
    ("raw", 9),
    ("unix", 6),
    ("netlink", 9),
    ("packet", 8),
];
/// Sockets of other network namespaces are in no table of the process.
const ELSEWHERE: &str = "socket elsewhere";

/// The open descriptors of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Descriptors by kind: `tcp`, `netlink`, `inotify`, `pidfd`, `file` and others.
    pub descriptors: BTreeMap<String, usize>,
    /// Watches of all its inotify descriptors.
    pub watches: usize,
    pub threads: usize,
}

impl Inventory {
    /// The inventory of a process; empty if it has exited.
    pub fn of(pid: u32) -> Self {
        let sockets = sockets(pid);
        let mut inventory = Self::default();
        for entry in names(&format!("/proc/{pid}/fd")) {
            // The descriptor may be closed by now.
            let Ok(target) = fs::read_link(format!("/proc/{pid}/fd/{entry}")) else {
                continue;
            };
            let target = target.to_string_lossy().into_owned();
            *inventory
                .descriptors
                .entry(kind(&target, &sockets))
                .or_default() += 1;
            if target.contains("inotify") {
                let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{entry}"));
                let lines = info.unwrap_or_default();
                let watches = lines.lines().filter(|line| line.starts_with("inotify wd:"));
                inventory.watches += watches.count();
            }
        }
        inventory.threads = names(&format!("/proc/{pid}/task")).len();
        inventory
    }

    /// The number of descriptors of this kind.
    pub fn count(&self, kind: &str) -> usize {
        self.descriptors.get(kind).copied().unwrap_or_default()
    }

    /// The number of descriptors.
    pub fn total(&self) -> usize {
        self.descriptors.values().sum()
    }
}

/// The kind of a descriptor by its link target: `socket:[7]`, `anon_inode:[pidfd]`, `pipe:[7]`, a path.
fn kind(target: &str, sockets: &HashMap<String, &'static str>) -> String {
    if let Some(inode) = target.strip_prefix("socket:[") {
        let inode = inode.trim_end_matches(']');
        return sockets.get(inode).copied().unwrap_or(ELSEWHERE).to_owned();
    }
    if let Some(name) = target.strip_prefix("anon_inode:") {
        return name.trim_matches(['[', ']']).to_owned();
    }
    match target.split_once(":[") {
        Some((name, _)) if !target.starts_with('/') => name.to_owned(),
        _ => "file".to_owned(),
    }
}

/// The sockets of the process's own network namespace, by inode.
fn sockets(pid: u32) -> HashMap<String, &'static str> {
    let mut found = HashMap::new();
    for (table, word) in TABLES {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let inodes = text.lines().skip(1);
        let inodes = inodes.filter_map(|line| line.split_whitespace().nth(word));
        found.extend(inodes.map(|inode| (inode.to_owned(), table)));
    }
    found
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_descriptors_are_counted_by_kind() {
        let before = Inventory::of(std::process::id());
        let _unix = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let _tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let after = Inventory::of(std::process::id());
        // Other tests of this process open and close descriptors, but no listeners.
        assert!(after.count("tcp") > before.count("tcp"), "{after:?}");
        assert!(after.total() > after.count("tcp") && after.threads > 0);
    }

    #[test]
    fn link_target_gives_the_kind() {
        let sockets = HashMap::from([("7".to_owned(), "netlink")]);
        for (target, expected) in [
            ("socket:[7]", "netlink"),
            ("socket:[8]", ELSEWHERE),
            ("anon_inode:[pidfd]", "pidfd"),
            ("anon_inode:inotify", "inotify"),
            ("pidfd:[9]", "pidfd"),
            ("net:[9]", "net"),
            ("/sys/fs/cgroup/a:[b]", "file"),
        ] {
            assert_eq!(kind(target, &sockets), expected, "{target}");
        }
    }
}
