//! Checks of the kernel's features, by the result of a probe for each.

use super::{Check, Question, command};

questions! {
    Kernel {
        RELEASE = "kernel-release",
            "the kernel is recent enough",
            "before Linux 5.3 usher cannot open a process, so it detects no end of a process in time";
        NETNS = "kernel-netns",
            "a network namespace can be created",
            "hold cannot be tested, and no pod's namespace can be entered";
        TABLE = "kernel-table",
            "connections can be held (nf_tables)",
            "apps that connect before their sidecar is ready are refused, as without usher";
        LOG = "kernel-log",
            "held packets can be logged (nft log, nflog)",
            "a held connection would continue a second late, so usher holds none";
        QUEUE = "kernel-queue",
            "DNS queries can be held (nft queue, nfqueue)",
            "queries to a mesh's own DNS fail until it is ready; connections are held all the same";
        SOCKETS = "kernel-sockets",
            "sockets can be looked up (sock_diag)",
            "usher cannot detect a sidecar's listener, so it holds nothing";
        PIDFD = "kernel-pidfd",
            "the end of a process can be awaited (pidfd)",
            "usher does not detect that an app ended";
        EXIT = "kernel-exit",
            "the kernel reports exit codes (PIDFD_INFO_EXIT)",
            "usher queries the kubelet instead, which takes up to a second longer";
        FANOTIFY = "kernel-fanotify",
            "starts can be held (fanotify)",
            "pods with usher.dev/hold: start have only their connections held";
        INSTANCES = "kernel-inotify-instances",
            "inotify instances are available",
            "usher does not detect new pods and changed files";
        WATCHES = "kernel-inotify-watches",
            "the limit of inotify watches fits the pods",
            "usher does not detect containers of pods beyond the limit";
    }
}

/// inotify watches of one pod: its directory and those of its containers, with room for restarts.
const WATCHES_OF_POD: u64 = 8;
/// The agent's watches that do not depend on pods.
const OWN_WATCHES: u64 = 64;
/// The kubelet's default limit of pods.
const USUAL_PODS: u64 = 110;
/// The first kernel with `pidfd_open`, and the first one that usher is tested with.
const OLDEST: (u32, u32) = (5, 3);
const TESTED: (u32, u32) = (6, 1);

/// The result of a probe.
pub type Tried = Result<(), String>;

#[derive(Debug, Clone)]
pub struct Found {
    /// As `uname -r` prints it.
    pub release: String,
    /// The results of probes in a new network namespace.
    pub netns: Result<Network, String>,
    /// Opening a process and waiting for its end.
    pub pidfd: Tried,
    /// Whether the kernel reported the exit code of that process.
    pub exit: Result<bool, String>,
    /// A fanotify group with permission events for execs.
    pub fanotify: Result<(), Lack>,
    pub inotify: Tried,
    pub limits: Limits,
    /// The number of pods on the node.
    pub pods: Option<u64>,
}

/// The results of probes in a network namespace.
#[derive(Debug, Clone)]
pub struct Network {
    /// The table of a hold.
    pub table: Tried,
    /// A rule that logs packets, and a reader.
    pub log: Tried,
    /// `queue` of nftables, or of iptables if nftables has none, and a reader.
    pub queue: Tried,
    pub queue_kind: Option<&'static str>,
    pub sockets: Result<bool, String>,
}

/// The error of fanotify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    pub cause: Cause,
    pub error: String,
}

/// The cause of a fanotify error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// `CAP_SYS_ADMIN` is missing.
    Permission,
    /// All groups are in use.
    Groups,
    Other,
}

/// Limits of inotify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// `fs.inotify.max_user_instances`.
    pub instances: Option<u64>,
    /// `fs.inotify.max_user_watches`.
    pub watches: Option<u64>,
}

pub fn judge(found: &Found) -> Vec<Check> {
    let mut checks = vec![release(&found.release)];
    match &found.netns {
        Ok(network) => {
            checks.push(NETNS.ok("created and removed one"));
            checks.extend(in_namespace(network));
        }
        Err(error) => {
            let exec = command::exec("check --pre");
            let fix = format!(
                "run it where CAP_SYS_ADMIN is: {exec}, or sudo on the node; where it is there, the kernel needs CONFIG_NET_NS"
            );
            checks.push(NETNS.failed(error, fix));
            let others = [&TABLE, &LOG, &QUEUE, &SOCKETS];
            checks.extend(others.map(|one| one.skipped("no namespace to test it in")));
        }
    }
    checks.push(match &found.pidfd {
        Ok(()) => PIDFD.ok("detected the end of a child process"),
        Err(error) => PIDFD.failed(error, "a kernel from Linux 5.3 on"),
    });
    checks.push(match &found.exit {
        Ok(true) => EXIT.ok("reported the code of that process"),
        Ok(false) => EXIT.warning(
            "reported no code",
            "a kernel from Linux 6.15 on; usher works without it",
        ),
        Err(error) => EXIT.skipped(error),
    });
    checks.push(fanotify(&found.fanotify));
    checks.push(match (&found.inotify, found.limits.instances) {
        (Ok(()), Some(most)) => INSTANCES.ok(format!("created one more, of {most} per user")),
        (Ok(()), None) => INSTANCES.ok("created one more"),
        (Err(error), _) => INSTANCES.failed(
            error,
            "sysctl -w fs.inotify.max_user_instances=1024, and the same in /etc/sysctl.d",
        ),
    });
    checks.push(watches(found.limits.watches, found.pods));
    checks
}

fn release(release: &str) -> Check {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit());
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    match (number(), number()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => {
            RELEASE.failed(format!("Linux {release}"), "a kernel from Linux 6.1 on")
        }
        (Some(major), Some(minor)) if (major, minor) < TESTED => RELEASE.warning(
            format!("Linux {release}: usher is tested from 6.1 on; the checks below decide"),
            "a kernel from Linux 6.1 on",
        ),
        (Some(_), Some(_)) => RELEASE.ok(format!("Linux {release}")),
        _ => RELEASE.skipped(format!("unknown kernel release {release:?}")),
    }
}

fn in_namespace(network: &Network) -> [Check; 4] {
    let tried = |question: &Question, tried: &Tried, message: &str, fix: &str| match tried {
        Ok(()) => question.ok(message),
        Err(error) => question.failed(error, fix),
    };
    let table = tried(
        &TABLE,
        &network.table,
        "installed the table of a hold",
        "modprobe nf_tables (CONFIG_NF_TABLES_INET); the container needs CAP_NET_ADMIN",
    );
    let log = tried(
        &LOG,
        &network.log,
        "bound a reader, and installed a rule that logs",
        "modprobe -a nft_log nfnetlink_log (CONFIG_NFT_LOG, CONFIG_NETFILTER_NETLINK_LOG)",
    );
    let queue = match (&network.queue, network.queue_kind) {
        (Ok(()), kind) => QUEUE.ok(format!("by {}", kind.unwrap_or("nft queue"))),
        (Err(error), _) => QUEUE.warning(
            error,
            "modprobe -a nft_queue nfnetlink_queue (CONFIG_NFT_QUEUE), or nft_compat and xt_NFQUEUE",
        ),
    };
    let diag = "modprobe -a inet_diag tcp_diag (CONFIG_INET_TCP_DIAG)";
    let sockets = match &network.sockets {
        Ok(true) => SOCKETS.ok("listed the sockets of the namespace"),
        Ok(false) => SOCKETS.failed("the kernel has no tcp_diag", diag),
        Err(error) => SOCKETS.failed(error, diag),
    };
    [table, log, queue, sockets]
}

fn fanotify(found: &Result<(), Lack>) -> Check {
    let lack = match found {
        Ok(()) => return FANOTIFY.ok("marked a file and removed the mark"),
        Err(lack) => lack,
    };
    let fix = match lack.cause {
        Cause::Permission => "securityContext.capabilities.add: [SYS_ADMIN], as the chart has it",
        Cause::Groups => {
            "sysctl -w fs.fanotify.max_user_groups=1024: other programs of the node use all groups"
        }
        Cause::Other => "a kernel with CONFIG_FANOTIFY_ACCESS_PERMISSIONS, from Linux 5.0 on",
    };
    FANOTIFY.warning(&lack.error, fix)
}

fn watches(most: Option<u64>, pods: Option<u64>) -> Check {
    let Some(most) = most else {
        return WATCHES.skipped("/proc/sys/fs/inotify/max_user_watches cannot be read");
    };
    let planned = pods.unwrap_or_default().max(USUAL_PODS);
    let needed = planned * WATCHES_OF_POD + OWN_WATCHES;
    let message = format!("{most} per user; {planned} pods need up to {needed}");
    if most < needed {
        let fix = format!(
            "sysctl -w fs.inotify.max_user_watches={}, and the same in /etc/sysctl.d",
            needed.next_power_of_two().max(65_536)
        );
        return WATCHES.failed(message, fix);
    }
    WATCHES.ok(message)
}
