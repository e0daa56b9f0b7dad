//! What the node's kernel can do, by what came of trying it.

use super::{Category, Check, Question};

const fn question(id: &'static str, title: &'static str, why: &'static str) -> Question {
    Question {
        id,
        category: Category::Kernel,
        title,
        why,
    }
}

const RELEASE: Question = question(
    "kernel-release",
    "the kernel is new enough",
    "before Linux 5.3 a process cannot be opened, so none of its ends is seen in time",
);
const NETNS: Question = question(
    "kernel-netns",
    "a network namespace can be made",
    "without one nothing of what a hold needs can be tried, nor could a pod's be entered",
);
const TABLE: Question = question(
    "kernel-table",
    "connections can be held (nf_tables)",
    "apps that connect before their sidecar is ready are refused, as without usher",
);
const LOG: Question = question(
    "kernel-log",
    "what waits can be told (nft log, nflog)",
    "a held connection would go on a second late, and usher holds none then",
);
const QUEUE: Question = question(
    "kernel-queue",
    "DNS queries can be held (nft queue, nfqueue)",
    "queries to a mesh's own DNS fail while it is not ready; connections are held all the same",
);
const SOCKETS: Question = question(
    "kernel-sockets",
    "sockets can be looked up (sock_diag)",
    "it cannot be seen whether a sidecar listens, so nothing is held",
);
const PIDFD: Question = question(
    "kernel-pidfd",
    "the end of a process can be waited for (pidfd)",
    "usher would not see that an app has ended",
);
const EXIT: Question = question(
    "kernel-exit",
    "the kernel tells exit codes (PIDFD_INFO_EXIT)",
    "the kubelet is asked for them instead, which takes up to a second longer",
);
const FANOTIFY: Question = question(
    "kernel-fanotify",
    "starts can be held (fanotify)",
    "pods that ask for usher.dev/hold: start have their connections held instead",
);
const INSTANCES: Question = question(
    "kernel-inotify-instances",
    "inotify instances are left",
    "usher would not be told of new pods and of changed files",
);
const WATCHES: Question = question(
    "kernel-inotify-watches",
    "inotify watches are enough for the pods",
    "containers of pods beyond the limit are not seen",
);

/// All of them.
pub const ALL: &[&Question] = &[
    &RELEASE, &NETNS, &TABLE, &LOG, &QUEUE, &SOCKETS, &PIDFD, &EXIT, &FANOTIFY, &INSTANCES,
    &WATCHES,
];

/// Watches of one pod: its directory and those of its containers, with room for those that come and go.
const WATCHES_OF_POD: u64 = 8;
/// Of what else the agent watches.
const OWN_WATCHES: u64 = 64;
/// Pods that a node has by default.
const USUAL_PODS: u64 = 110;
/// The first kernel with `pidfd_open`, and the one that usher is tested from.
const OLDEST: (u32, u32) = (5, 3);
const TESTED: (u32, u32) = (6, 1);

/// Something that was tried, and why it did not work.
pub type Tried = Result<(), String>;

/// What came of trying.
#[derive(Debug, Clone)]
pub struct Found {
    /// What the kernel calls itself.
    pub release: String,
    /// What was tried in a network namespace made for it, or why there is none.
    pub netns: Result<Network, String>,
    /// Opening a process, and waiting for its end.
    pub pidfd: Tried,
    /// Whether the kernel told how that one ended.
    pub exit: Result<bool, String>,
    /// A group that asks before an exec.
    pub fanotify: Result<(), Lack>,
    /// One more inotify instance.
    pub inotify: Tried,
    /// The limits, where they can be read.
    pub limits: Limits,
    /// Pods on the node, where that is known.
    pub pods: Option<u64>,
}

/// What was tried in the network namespace.
#[derive(Debug, Clone)]
pub struct Network {
    /// The table of a hold.
    pub table: Tried,
    /// The rule that copies, and a reader for the copies.
    pub log: Tried,
    /// `queue` of nftables, or else of iptables, and a reader.
    pub queue: Tried,
    /// Which of the two.
    pub queue_kind: Option<&'static str>,
    /// A look at the sockets: true where the kernel has what it needs.
    pub sockets: Result<bool, String>,
}

/// What fanotify failed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// `permission`, `groups`, `unsupported` or another word.
    pub kind: &'static str,
    /// All of it.
    pub error: String,
}

/// Limits of inotify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// `fs.inotify.max_user_instances`.
    pub instances: Option<u64>,
    /// `fs.inotify.max_user_watches`.
    pub watches: Option<u64>,
}

/// Judges it.
pub fn judge(found: &Found) -> Vec<Check> {
    let mut checks = vec![release(&found.release)];
    match &found.netns {
        Ok(network) => {
            checks.push(NETNS.ok("made one, and it is gone again"));
            checks.extend(in_namespace(network));
        }
        Err(error) => {
            let mend = "run it where CAP_SYS_ADMIN is: kubectl exec -n usher ds/usher -- usher check --pre, or sudo on the node; where it is there, the kernel needs CONFIG_NET_NS";
            checks.push(NETNS.failed(error, mend));
            let others = [&TABLE, &LOG, &QUEUE, &SOCKETS];
            checks.extend(others.map(|one| one.skipped("there is no namespace to try it in")));
        }
    }
    checks.push(match &found.pidfd {
        Ok(()) => PIDFD.ok("saw a process of its own end"),
        Err(error) => PIDFD.failed(error, "a kernel from Linux 5.3 on"),
    });
    checks.push(match &found.exit {
        Ok(true) => EXIT.ok("it told the code of that process"),
        Ok(false) => EXIT.warning(
            "it did not tell",
            "a kernel from Linux 6.15 on; usher works without",
        ),
        Err(error) => EXIT.skipped(error),
    });
    checks.push(fanotify(&found.fanotify));
    checks.push(match (&found.inotify, found.limits.instances) {
        (Ok(()), Some(most)) => {
            INSTANCES.ok(format!("one more could be made, of {most} for each user"))
        }
        (Ok(()), None) => INSTANCES.ok("one more could be made"),
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
            format!(
                "Linux {release}: usher is tested from 6.1 on; what counts is what works below"
            ),
            "a kernel from Linux 6.1 on",
        ),
        (Some(_), Some(_)) => RELEASE.ok(format!("Linux {release}")),
        _ => RELEASE.skipped(format!("the kernel calls itself {release:?}")),
    }
}

fn in_namespace(network: &Network) -> [Check; 4] {
    let tried = |question: &Question, tried: &Tried, saw: &str, mend: &str| match tried {
        Ok(()) => question.ok(saw),
        Err(error) => question.failed(error, mend),
    };
    let table = tried(
        &TABLE,
        &network.table,
        "put the table of a hold in place",
        "modprobe nf_tables (CONFIG_NF_TABLES_INET); the container needs CAP_NET_ADMIN",
    );
    let log = tried(
        &LOG,
        &network.log,
        "bound a reader, and put a rule in place that copies",
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
        Ok(true) => SOCKETS.ok("listed the sockets of that namespace"),
        Ok(false) => SOCKETS.failed("the kernel has no tcp_diag", diag),
        Err(error) => SOCKETS.failed(error, diag),
    };
    [table, log, queue, sockets]
}

fn fanotify(found: &Result<(), Lack>) -> Check {
    let lack = match found {
        Ok(()) => return FANOTIFY.ok("marked a file, and took the mark back"),
        Err(lack) => lack,
    };
    let mend = match lack.kind {
        "permission" => "securityContext.capabilities.add: [SYS_ADMIN], as the chart has it",
        "groups" => {
            "sysctl -w fs.fanotify.max_user_groups=1024: other programs of the node have all groups"
        }
        _ => "a kernel with CONFIG_FANOTIFY_ACCESS_PERMISSIONS, from Linux 5.0 on",
    };
    FANOTIFY.warning(&lack.error, mend)
}

fn watches(most: Option<u64>, pods: Option<u64>) -> Check {
    let Some(most) = most else {
        return WATCHES.skipped("/proc/sys/fs/inotify/max_user_watches cannot be read");
    };
    let planned = pods.unwrap_or_default().max(USUAL_PODS);
    let needed = planned * WATCHES_OF_POD + OWN_WATCHES;
    let saw = format!("{most} for each user; {planned} pods take up to {needed}");
    if most < needed {
        let mend = format!(
            "sysctl -w fs.inotify.max_user_watches={}, and the same in /etc/sysctl.d",
            needed.next_power_of_two().max(65_536)
        );
        return WATCHES.failed(saw, mend);
    }
    WATCHES.ok(saw)
}
