//! Probes the features of the kernel and the privileges of this process.

use std::{error::Error, fs};

use nix::unistd::geteuid;
use usher_client::error_chain::chain;
use usher_core::hold::ruleset::Queue as Kind;
use usher_inspect::check::{
    capability::{self, Processes},
    kernel::{Cause, Found, Lack, Limits, Network, Tried},
};
use usher_sys::{
    net::{
        feature_probe,
        netns::{self, Netns},
        nflog::{self, Log},
        nfqueue::{self, Queue},
        nft,
    },
    oci::fanotify::{self, Group},
    pods::cgroup,
    process::capability::effective,
};

use crate::data_source::node::Node;

/// The file with the processes of a cgroup, and its entry for a process of another pid namespace.
const PROCESSES: &str = "cgroup.procs";
const OUTSIDE: &str = "0";

/// Runs all probes, which takes some ten milliseconds.
pub(super) async fn look(pods: Option<u64>) -> Found {
    let ended = feature_probe::process().await;
    Found {
        release: feature_probe::release().unwrap_or_default(),
        netns: network(),
        pidfd: ended.as_ref().map(drop).map_err(|error| chain(error)),
        exit: ended.map_err(|error| chain(&error)),
        fanotify: Group::open().map(drop).map_err(|error| Lack {
            cause: match error {
                fanotify::Error::Permission(_) => Cause::Permission,
                fanotify::Error::Groups(_) => Cause::Groups,
                _ => Cause::Other,
            },
            error: chain(&error),
        }),
        inotify: feature_probe::inotify().map_err(|error| chain(&error)),
        limits: Limits {
            instances: feature_probe::limit("fs/inotify/max_user_instances"),
            watches: feature_probe::limit("fs/inotify/max_user_watches"),
        },
        pods,
    }
}

fn network() -> Result<Network, String> {
    let features = nft::probe().map_err(|error| chain(&error))?;
    // The readers need a second namespace: a group has one reader in each.
    let netns = Netns::scratch().map_err(|error| chain(&error))?;
    let reader = Log::bind(&netns, nflog::GROUP).map(drop);
    let queue = Queue::bind(&netns, nfqueue::QUEUE).map(drop);
    let kind = features.queue();
    let native = features.native_queue.as_ref();
    Ok(Network {
        table: tried(features.table.as_ref()),
        log: tried(features.log.as_ref()).and(tried(reader.as_ref())),
        queue: match kind {
            Some(_) => tried(queue.as_ref()),
            None => tried(native),
        },
        queue_kind: kind.map(|kind| match kind {
            Kind::Native => "nft queue",
            Kind::Compat => "NFQUEUE of iptables",
        }),
        sockets: features.sock_diag.map_err(|error| chain(&error)),
    })
}

pub(super) fn privileges(node: &Node) -> capability::Found {
    capability::Found {
        uid: geteuid().as_raw(),
        effective: effective().map_err(|error| chain(&error)),
        processes: processes(node),
    }
}

fn processes(node: &Node) -> Result<Processes, String> {
    let scan = netns::scan(&node.proc).map_err(|error| chain(&error))?;
    // Without pods, no process is outside.
    let root = cgroup::locate(&node.args.cgroup_root).ok();
    let pods = root
        .and_then(|root| cgroup::walk(&root).ok())
        .unwrap_or_default();
    let cgroups = pods.iter().flat_map(|pod| &pod.containers);
    let outside = cgroups.map(|(_, cgroup)| {
        let text = fs::read_to_string(cgroup.join(PROCESSES)).unwrap_or_default();
        text.lines().filter(|pid| *pid == OUTSIDE).count()
    });
    Ok(Processes {
        namespaces: scan.namespaces.len(),
        hidden: scan.hidden,
        outside: outside.sum(),
    })
}

fn tried<T, E: Error>(outcome: Result<T, &E>) -> Tried {
    outcome.map(drop).map_err(|error| chain(error))
}
