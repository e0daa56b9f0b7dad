//! What is seen of a pod beside the kubelet's word: its processes, its sockets, what usher decided about it.
//!
//! The texts are the kernel's ([proc(5)](https://man7.org/linux/man-pages/man5/proc.5.html)); who reads them is elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use usher_core::{
    base::id::Pid, decision::timeline::Entry, node::network::Network, recipe::Version,
    settings::mode::Modes,
};

/// Words of a command line that are kept, and letters of each.
const WORDS: usize = 64;
const LETTERS: usize = 256;
/// Sockets that are kept of a pod.
const SOCKETS: usize = 4096;
/// `SIGTERM`'s bit in the masks of `/proc/PID/status`.
const TERM: u64 = 1 << 14;

/// Everything that is seen of one pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// The present, milliseconds since 1970.
    pub now_ms: u64,
    /// The kubelet's version, where it is known.
    pub kubelet: Option<Version>,
    /// Another pod of this node that has native sidecars and whose apps run.
    pub native_elsewhere: Option<String>,
    /// An agent answers.
    pub agent: bool,
    /// What usher may do on this node, where it is known.
    pub modes: Option<Modes>,
    /// The processes of its containers; None where nobody looked.
    pub processes: Option<Vec<Process>>,
    /// The TCP sockets of its network namespace that listen or have sent a SYN; None where nobody looked.
    pub sockets: Option<Vec<Socket>>,
    /// Its interfaces, addresses and routes; None where they were not listed.
    pub network: Option<Network>,
    /// What usher decided about it, oldest first; None where neither an agent nor its journal tells.
    pub timeline: Option<Vec<Entry>>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Name of its container.
    pub container: String,
    /// The process, as the node counts.
    pub pid: Pid,
    /// As its own pid namespace counts.
    pub own_pid: i32,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Its command line.
    pub words: Vec<String>,
    /// What it does with `SIGTERM`.
    pub on_term: OnTerm,
}

/// What a process does with `SIGTERM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTerm {
    /// It has a handler.
    Handles,
    /// It ignores it.
    Ignores,
    /// It leaves it to the kernel, which ends it, unless it is the first process of a pid namespace: then nothing happens.
    Default,
}

impl Process {
    /// Reads `/proc/PID/status` and `/proc/PID/cmdline`; None where the first is no such text.
    pub fn read(container: &str, pid: Pid, status: &str, cmdline: &[u8]) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
        };
        let mask = |name: &str| u64::from_str_radix(field(name)?, 16).ok();
        let on_term = match (mask("SigCgt")?, mask("SigIgn")?) {
            (caught, _) if caught & TERM != 0 => OnTerm::Handles,
            (_, ignored) if ignored & TERM != 0 => OnTerm::Ignores,
            _ => OnTerm::Default,
        };
        let words = cmdline.split(|byte| *byte == 0).take(WORDS);
        let words = words.map(|word| {
            let text = String::from_utf8_lossy(word);
            text.chars().take(LETTERS).collect::<String>()
        });
        let mut words: Vec<String> = words.collect();
        // The text ends with a zero.
        while words.last().is_some_and(String::is_empty) {
            words.pop();
        }
        Some(Self {
            container: container.to_owned(),
            pid,
            own_pid: field("NSpid")?
                .split_whitespace()
                .next_back()?
                .parse()
                .ok()?,
            name: field("Name")?.to_owned(),
            words,
            on_term,
        })
    }

    /// Whether it is the first process of a pid namespace that is not the node's.
    pub fn is_first(&self) -> bool {
        self.own_pid == 1 && self.pid.0 != 1
    }
}

/// One TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// The user that owns it.
    pub user: u32,
    /// Its own port.
    pub port: u16,
    /// What it is connecting to; None for one that listens.
    pub connecting_to: Option<(IpAddr, u16)>,
    /// How often its SYN was sent again.
    pub retransmitted: u32,
}

impl Socket {
    /// Reads `/proc/PID/net/tcp` or `tcp6`: those that listen, and those whose SYN has no answer.
    pub fn read_all(table: &str) -> Vec<Self> {
        table
            .lines()
            .skip(1)
            .filter_map(Self::read)
            .take(SOCKETS)
            .collect()
    }

    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (fields.next()?, fields.next()?);
        let state = fields.next()?;
        let (_queues, _timer, retransmitted) = (fields.next()?, fields.next()?, fields.next()?);
        let user = fields.next()?.parse().ok()?;
        let connecting_to = match state {
            "02" => Some(address(remote)?),
            "0A" => None,
            _ => return None,
        };
        Some(Self {
            user,
            port: address(local)?.1,
            connecting_to,
            retransmitted: u32::from_str_radix(retransmitted, 16).ok()?,
        })
    }
}

/// Reads an address, which stands there in words of the machine's own byte order, and a port, which does not.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            let address = Ipv6Addr::from(bytes);
            address
                .to_ipv4_mapped()
                .map_or(address.into(), IpAddr::from)
        }
        _ => return None,
    };
    Some((address, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn process_of_a_container() {
        let status = |caught: &str, ignored: &str| {
            format!(
                "Name:\tsh\nPid:\t70\nNSpid:\t70\t9\t1\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\n"
            )
        };
        let read = |caught, ignored| {
            Process::read("c", Pid(70), &status(caught, ignored), b"sh\0-c\0sleep 1\0").unwrap()
        };
        let (none, term) = ("0000000000000000", "0000000000004000");
        let shell = read(none, none);
        assert_eq!(
            (shell.own_pid, shell.is_first(), &shell.name[..]),
            (1, true, "sh")
        );
        assert_eq!(shell.words, ["sh", "-c", "sleep 1"]);
        assert_eq!(shell.on_term, OnTerm::Default);
        assert_eq!(read(none, term).on_term, OnTerm::Ignores);
        assert_eq!(read(term, term).on_term, OnTerm::Handles);
        assert_eq!(Process::read("c", Pid(70), "", b""), None);
        for (node, own, is_first) in [(70, 1, true), (70, 7, false), (1, 1, false), (7, 7, false)] {
            let process = Process {
                pid: Pid(node),
                own_pid: own,
                ..read(none, none)
            };
            assert_eq!(process.is_first(), is_first, "{node} {own}");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn sockets_of_a_namespace() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             \x20  0: 00000000:3AAD 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1337        0 1 1 0 100 0 0 10 0\n\
             \x20  1: 0A00000A:B3B0 FEA9FEA9:0050 02 00000001:00000000 01:00000063 00000002  1337        0 2 2 0 800 0 0 1 7\n\
             \x20  2: 0100007F:3A98 0100007F:B3B0 01 00000000:00000000 00:00000000 00000000  1337        0 3 1 0 20 4 30 10 -1\n";
        let sockets = Socket::read_all(table);
        assert_eq!(sockets.len(), 2, "{sockets:?}");
        assert_eq!((sockets[0].port, sockets[0].connecting_to), (15021, None));
        let metadata = IpAddr::from([169, 254, 169, 254]);
        assert_eq!(sockets[1].connecting_to, Some((metadata, 80)));
        assert_eq!((sockets[1].user, sockets[1].retransmitted), (1337, 2));
        let mapped = "0000000000000000FFFF0000FEA9FEA9:0050";
        assert_eq!(address(mapped), Some((metadata, 80)));
    }

    proptest! {
        #[test]
        fn anything_is_read_without_harm(text in "\\PC{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            drop(Socket::read_all(&format!("\n0: {text} 02 0 0 0 0")));
            drop(Process::read("c", Pid(2), &text, &bytes));
        }
    }
}
