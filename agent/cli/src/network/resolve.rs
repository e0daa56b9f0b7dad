//! `usher resolve`: resolves a name as a pod does.

use std::{net::IpAddr, time::Duration};

use usher_core::{admin::Origin, base::duration};
use usher_inspect::{
    dns::{Name, Resolution},
    pod_selector::Names,
    text::table::Table,
};

use super::{pod_network::sending_network, resolver::Resolver};
use crate::{
    data_source::node::Node,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report},
};

/// Resolve a name as the apps of a pod do, and print each query with its result
///
/// The queries are sent from the pod's network namespace, to the servers and with the search domains of the pod's
/// /etc/resolv.conf, so they pass the pod's NetworkPolicies and its mesh. Nothing runs in the pod. /etc/hosts is read
/// first. The search follows glibc: A and AAAA at once, the next server after an error or a timeout, no further search
/// domain without a reply.
///
/// Exits with 0 if the name has an address, with 1 if the servers know none, with
/// 5 if no server answered.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pod: namespace/name, UID, container ID, PID, IP address or a unique part of its name
    pod: String,

    /// Name to resolve; with a final dot, without the search domains
    #[arg(id = "host_name", value_name = "NAME")]
    name: Name,

    /// Query this server instead of those of /etc/resolv.conf; repeatable
    #[arg(short, long, value_name = "ADDRESS")]
    server: Vec<IpAddr>,

    /// Timeout of the whole search
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,

    /// Allow a pod that uses the node's network
    #[arg(long)]
    host_network: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let node = Node::new(&global.node);
    let target = node.find(&args.pod, Names::Parts).await?;
    let effect = "the queries would be the node's";
    let netns = sending_network(&node, &target, args.host_network, effect)?;
    let resolver = Resolver::new(&node, &target, &netns, &args.server);
    let resolution = resolver.resolve(&args.name, args.timeout).await?;
    let exit = exit_of(&resolution);
    Output::new(global).show(Origin::Node, resolution)?;
    Ok(exit)
}

pub(super) fn exit_of(resolution: &Resolution) -> Exit {
    if !resolution.addresses.is_empty() {
        Exit::Success
    } else if resolution.is_negative() {
        Exit::Problem
    } else {
        Exit::Unavailable
    }
}

impl Report for Resolution {
    const KIND: &'static str = "Resolution";

    fn table(&self, wide: bool) -> Table {
        self.table(wide)
    }
}
