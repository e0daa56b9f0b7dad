//! The node's data about a pod: its processes, its sockets, and usher's decisions.
//!
//! A process is parsed from the kernel's texts ([proc(5)](https://man7.org/linux/man-pages/man5/proc.5.html)). This crate
//! has no IO: the CLI reads them.

use usher_core::{
    admin::Modes,
    base::id::Pid,
    decision::timeline::Entry,
    node::{network::Network, socket::Socket},
    recipe::Version,
};

use super::certificate::Certificate;

/// The limits of a command line.
const WORDS: usize = 64;
const LETTERS: usize = 256;
/// `SIGTERM`'s bit in the masks of `/proc/PID/status`.
const TERM: u64 = 1 << 14;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// The current time, in milliseconds since 1970.
    pub now_ms: u64,
    pub kubelet: Option<Version>,
    /// Another pod of this node that has native sidecars and running apps.
    pub native_elsewhere: Option<String>,
    pub agent: bool,
    pub modes: Option<Modes>,
    /// The stop signals of the pod that wait. Without an agent none does.
    pub held_stops: usize,
    /// None if they were not inspected.
    pub processes: Option<Vec<Process>>,
    /// The TCP sockets of the pod's network namespace that listen or connect; None if they were not inspected.
    pub sockets: Option<Vec<Socket>>,
    /// TCP connection attempts since the pod's network namespace was created; None if they were not inspected.
    pub attempts: Option<Attempts>,
    /// The chain that redirects outbound connections, such as `ip nat OUTPUT`, if nftables lists one.
    pub redirect: Option<String>,
    /// The certificates of Istio's proxy; None if they were not requested, or the proxy did not reply.
    pub certificates: Option<Vec<Certificate>>,
    /// Interfaces, addresses and routes; None if they were not listed.
    pub network: Option<Network>,
    /// The decisions, oldest first; None if neither an agent nor its journal has them.
    pub timeline: Option<Vec<Entry>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub container: String,
    /// The pid in the node's namespace.
    pub pid: Pid,
    /// The pid in the process's own namespace.
    pub own_pid: i32,
    /// The process name (`comm`).
    pub name: String,
    pub words: Vec<String>,
    pub on_term: OnTerm,
}

/// How a process handles `SIGTERM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTerm {
    Handles,
    Ignores,
    /// The kernel terminates the process, unless it is the first process of a pid namespace.
    Default,
}

/// The kernel's counters of connection attempts of one network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    pub all: u64,
    /// Attempts that were refused or timed out.
    pub failed: u64,
}

impl Attempts {
    /// Parses `/proc/PID/net/snmp`: a line of names, then a line of values. None without TCP's counters.
    pub fn parse(snmp: &str) -> Option<Self> {
        let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |name: &str| {
            let mut pairs = names.split_whitespace().zip(values.split_whitespace());
            pairs.find(|(found, _)| *found == name)?.1.parse().ok()
        };
        Some(Self {
            all: value("ActiveOpens")?,
            failed: value("AttemptFails")?,
        })
    }
}

impl Process {
    /// Parses `/proc/PID/status` and `/proc/PID/cmdline`; None if the first is invalid.
    pub fn parse(container: &str, pid: Pid, status: &str, cmdline: &[u8]) -> Option<Self> {
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
        let own_pid = field("NSpid")?.split_whitespace().next_back();
        let mut words: Vec<String> = cmdline
            .split(|byte| *byte == 0)
            .take(WORDS)
            .map(String::from_utf8_lossy)
            .map(|word| word.chars().take(LETTERS).collect())
            .collect();
        // The command line ends with a NUL byte.
        while words.last().is_some_and(String::is_empty) {
            words.pop();
        }
        Some(Self {
            container: container.to_owned(),
            pid,
            own_pid: own_pid?.parse().ok()?,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn process_is_parsed() {
        let status = |caught: &str, ignored: &str| {
            format!(
                "Name:\tsh\nPid:\t70\nNSpid:\t70\t9\t1\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\n"
            )
        };
        let read = |caught, ignored| {
            Process::parse("c", Pid(70), &status(caught, ignored), b"sh\0-c\0sleep 1\0").unwrap()
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
        assert_eq!(Process::parse("c", Pid(70), "", b""), None);
        for (node, own, is_first) in [(70, 1, true), (70, 7, false), (1, 1, false), (7, 7, false)] {
            let process = Process {
                pid: Pid(node),
                own_pid: own,
                ..read(none, none)
            };
            assert_eq!(process.is_first(), is_first, "{node} {own}");
        }
    }

    #[test]
    fn attempts_are_parsed() {
        let snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
                    Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens AttemptFails\nTcp: 1 -1 43 2 41\n";
        let attempts = Attempts {
            all: 43,
            failed: 41,
        };
        assert_eq!(Attempts::parse(snmp), Some(attempts));
        for text in [
            "",
            "Tcp: ActiveOpens",
            "Tcp: ActiveOpens AttemptFails\nTcp: 1 x\n",
        ] {
            assert_eq!(Attempts::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "\\PC{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _attempts = Attempts::parse(&text);
            drop(Process::parse("c", Pid(2), &text, &bytes));
        }
    }
}
