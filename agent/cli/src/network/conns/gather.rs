//! Reads the sockets of a pod from the kernel, and their owners from `/proc`.

use std::collections::HashSet;

use usher_client::error_chain::chain;
use usher_core::{
    admin,
    node::socket::{Protocol, Socket},
};
use usher_inspect::{
    conns::{Conns, Container, Input, MAX_SOCKETS, Role},
    pod_selector::Names,
};
use usher_sys::{
    net::{
        netns::Netns,
        owner::{self, Member, Owners},
        sockdiag::{Sockets, Wanted},
    },
    pods::cgroup,
};

use crate::{
    data_source::{
        DataSource,
        node::{Node, Target},
    },
    failure::Failure,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Only the details that the kernel always reports.
    Plain,
    /// Also round trip times, retransmissions and drops.
    Full,
}

#[derive(Default)]
struct Seen {
    sockets: Vec<Socket>,
    cookies: HashSet<u64>,
    /// Number of sockets that were not kept.
    beyond: usize,
    gaps: Vec<String>,
    is_partial: bool,
}

pub(crate) async fn gather(
    source: &DataSource,
    pod: &str,
    detail: Detail,
) -> Result<Conns, Failure> {
    let target = source.node.find(pod, Names::Parts).await?;
    sockets_of(&source.node, &target, detail)
}

pub(super) fn sockets_of(node: &Node, target: &Target, detail: Detail) -> Result<Conns, Failure> {
    let netns = target.netns(node)?;
    let is_host = node.is_own_network(&netns);
    let members = members(node, target)?;
    // The node's namespace has the sockets of all programs, so the pod's own sockets must be known first.
    let own = is_host
        .then(|| owners(node, target, &members, None))
        .transpose()?;
    let mut seen = sockets(&netns, detail, |socket| {
        own.as_ref().is_none_or(|own| is_of(socket, own, &members))
    })?;
    let inodes: HashSet<u32> = seen.sockets.iter().map(|socket| socket.inode).collect();
    let owners = match own {
        Some(own) => own,
        None => owners(node, target, &members, Some(&inodes))?,
    };
    seen.add_gaps(&owners);
    seen.is_partial |= is_host;
    seen.gaps.extend(target.gaps.iter().cloned());
    let input = input(target, &members, &mut seen, owners);
    let mut conns = Conns {
        pod: target.pod.display_name(),
        uid: target.uid.to_string(),
        host_network: is_host,
        containers: names(&input),
        sockets: input.judge(),
        gaps: seen.gaps,
        ..Conns::default()
    };
    conns.count();
    Ok(conns)
}

fn members(node: &Node, target: &Target) -> Result<Vec<Member>, Failure> {
    let root = cgroup::locate(&node.args.cgroup_root)
        .map_err(|error| Failure::unavailable(format!("{error}; is --cgroup-root right?")))?;
    owner::members(&root, &target.uid).map_err(|error| Failure::unavailable(chain(&error)))
}

fn owners(
    node: &Node,
    target: &Target,
    members: &[Member],
    wanted: Option<&HashSet<u32>>,
) -> Result<Owners, Failure> {
    let found = owner::owners(&node.proc, &target.uid, members, wanted);
    found.map_err(|error| Failure::unavailable(format!("cannot read file descriptors: {error}")))
}

/// Whether a socket of the node's network namespace belongs to the pod.
fn is_of(socket: &Socket, own: &Owners, members: &[Member]) -> bool {
    let held = own
        .held
        .binary_search_by_key(&socket.inode, |(inode, _)| *inode);
    let made = |member: &Member| member.cgroups.contains(&socket.cgroup);
    (socket.inode != 0 && held.is_ok()) || (socket.cgroup != 0 && members.iter().any(made))
}

fn sockets(netns: &Netns, detail: Detail, fits: impl Fn(&Socket) -> bool) -> Result<Seen, Failure> {
    let wanted = Wanted {
        protocols: vec![Protocol::Tcp, Protocol::Udp],
        detail: detail == Detail::Full,
    };
    let refused = |error| {
        let text = chain(&error);
        Failure::refused(format!(
            "cannot list the sockets ({text}); run as root with CAP_SYS_ADMIN, as in the agent's container"
        ))
    };
    let mut seen = Seen::default();
    let mut kernel = Sockets::open(netns).map_err(refused)?;
    let dumped = kernel.dump(&wanted, |socket| {
        if fits(&socket) {
            seen.take(socket);
        }
    });
    let dumped = dumped.map_err(|error| Failure::unavailable(chain(&error)))?;
    if dumped.absent.len() == wanted.protocols.len() {
        return Err(Failure::unavailable(
            "the kernel cannot list sockets: inet_diag is missing (CONFIG_INET_DIAG, CONFIG_INET_TCP_DIAG)",
        ));
    }
    for protocol in dumped.absent {
        let (small, large) = (protocol.into_str(), protocol.into_str().to_uppercase());
        seen.gaps.push(format!(
            "no {large} sockets are listed: {small}_diag is missing in the kernel (CONFIG_INET_{large}_DIAG)"
        ));
    }
    if dumped.torn {
        seen.miss("sockets changed while the kernel listed them: some may be missing".to_owned());
    }
    if dumped.unreadable > 0 {
        let count = dumped.unreadable;
        seen.miss(format!(
            "{count} sockets are left out: the kernel reports them in an unknown format"
        ));
    }
    if seen.beyond > 0 {
        let count = seen.beyond;
        seen.miss(format!(
            "{count} more sockets are left out: the limit is {MAX_SOCKETS}"
        ));
    }
    Ok(seen)
}

impl Seen {
    fn take(&mut self, socket: Socket) {
        // A socket that changes its hash bucket during the dump may be listed twice.
        if socket.cookie != 0 && !self.cookies.insert(socket.cookie) {
            return;
        }
        if self.sockets.len() < MAX_SOCKETS {
            self.sockets.push(socket);
        } else {
            self.cookies.remove(&socket.cookie);
            self.beyond += 1;
        }
    }

    /// Records that sockets are missing. They may be the other ends of listed ones.
    fn miss(&mut self, gap: String) {
        self.is_partial = true;
        self.gaps.push(gap);
    }

    fn add_gaps(&mut self, owners: &Owners) {
        if let Some((pid, error)) = owners.hidden.first() {
            let count = owners.hidden.len();
            self.gaps.push(format!(
                "the file descriptors of {count} processes of the pod cannot be read, first PID {pid} ({error}): this needs \
                 CAP_SYS_PTRACE, and Linux 5.14 or CAP_DAC_READ_SEARCH"
            ));
        }
        if owners.cut {
            self.gaps.push(
                "the pod has more file descriptors than are read: some sockets have no process"
                    .to_owned(),
            );
        }
    }
}

fn input(target: &Target, members: &[Member], seen: &mut Seen, owners: Owners) -> Input {
    let containers = members.iter().map(|member| container(target, member));
    let cgroups = members
        .iter()
        .enumerate()
        .flat_map(|(index, member)| member.cgroups.iter().map(move |cgroup| (*cgroup, index)));
    Input {
        sockets: std::mem::take(&mut seen.sockets),
        is_partial: seen.is_partial,
        is_blind: owners.cut || !owners.hidden.is_empty(),
        containers: containers.collect(),
        processes: owners.processes,
        held: owners.held,
        cgroups: cgroups.collect(),
    }
}

fn container(target: &Target, member: &Member) -> Container {
    let known = target.containers.iter().find(|it| it.id == member.id);
    let name = known.and_then(|known| known.name.clone());
    let role = match (known.map(|known| known.role), &name) {
        (Some(admin::Role::App | admin::Role::Init), _) => Role::App,
        (Some(admin::Role::Sidecar | admin::Role::SelfEnding | admin::Role::Native), _) => {
            Role::Sidecar
        }
        // A container without a name is the sandbox.
        (Some(admin::Role::Other), None) => Role::Sandbox,
        (Some(admin::Role::Other) | None, _) => Role::Unknown,
    };
    let id = member.id.as_str();
    let short = || id.get(..12).unwrap_or(id).to_owned();
    Container {
        id: member.id.clone(),
        name: match role {
            Role::Sandbox => "(sandbox)".to_owned(),
            _ => name.unwrap_or_else(short),
        },
        role,
    }
}

fn names(input: &Input) -> Vec<String> {
    let shown = input
        .containers
        .iter()
        .filter(|it| it.role != Role::Sandbox);
    let mut names: Vec<String> = shown.map(|it| it.name.clone()).collect();
    names.sort();
    names
}
