//! `usher connect`: connects to a TCP port as a pod does.

mod attempt;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use usher_core::{admin::Origin, base::duration};
use usher_inspect::{
    connect::{Connection, Destination, Host},
    pod_selector::Names,
    text::{printable::clean, table::Table},
};

use super::{pod_network::sending_network, resolve, resolver::Resolver};
use crate::{
    data_source::node::Node,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report},
    stderr::print_stderr,
};

/// Limit of the addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Connect to a TCP port as an app of a pod does, and report the time or what prevents it
///
/// The connection is made from the pod's network namespace by a process with the user ID 0, so it passes the pod's
/// NetworkPolicies, and its mesh. Nothing runs in the pod, and no data is sent. Names are resolved with the pod's
/// /etc/hosts and /etc/resolv.conf. The addresses of a name are tried in order until one accepts.
///
/// VIA is the path of the connection: direct, redirected to a sidecar (through), or to a container of the pod itself (to).
/// A sidecar accepts a connection before it connects to the destination, so the command waits one second for what the
/// sidecar does with it.
///
/// Exits with 0 if connected, with 1 if the name has no address, with 5 if the
/// destination does not accept the connection.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pod: namespace/name, UID, container ID, PID, IP address or a unique part of its name
    pod: String,

    /// Destination: HOST:PORT; without HOST, the pod itself
    #[arg(value_name = "HOST:PORT")]
    destination: Destination,

    /// Query this DNS server instead of those of /etc/resolv.conf; repeatable
    #[arg(short, long, value_name = "ADDRESS")]
    server: Vec<IpAddr>,

    /// Timeout of each connection, and of the resolution of the name
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    timeout: Duration,

    /// Allow a pod that uses the node's network
    #[arg(long)]
    host_network: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let connection = connect(args, global).await?;
    for gap in &connection.gaps {
        print_stderr(&clean(gap));
    }
    let exit = exit_of(&connection);
    Output::new(global).show(Origin::Node, connection)?;
    Ok(exit)
}

async fn connect(args: &Args, global: &Global) -> Result<Connection, Failure> {
    let node = Node::new(&global.node);
    let target = node.find(&args.pod, Names::Parts).await?;
    let effect = "the connection would be the node's";
    let netns = sending_network(&node, &target, args.host_network, effect)?;
    let mut connection = Connection {
        pod: target.pod.display_name(),
        uid: target.uid.to_string(),
        destination: args.destination.to_string(),
        resolution: None,
        attempts: Vec::new(),
        gaps: Vec::new(),
    };
    let addresses = match &args.destination.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            let resolver = Resolver::new(&node, &target, &netns, &args.server);
            let resolution = resolver.resolve(name, args.timeout).await?;
            connection.resolution.insert(resolution).addresses.clone()
        }
    };
    for address in addresses.into_iter().take(MAX_ADDRESSES) {
        let address = SocketAddr::new(address, args.destination.port);
        let attempt = attempt::Pod {
            node: &node,
            target: &target,
            netns: &netns,
        };
        let attempt = attempt
            .connect(address, args.timeout, &mut connection.gaps)
            .await;
        connection.attempts.push(attempt);
        if connection.is_connected() {
            break;
        }
    }
    Ok(connection)
}

fn exit_of(connection: &Connection) -> Exit {
    match &connection.resolution {
        _ if connection.is_connected() => Exit::Success,
        Some(resolution) if connection.attempts.is_empty() => resolve::exit_of(resolution),
        _ => Exit::Unavailable,
    }
}

impl Report for Connection {
    const KIND: &'static str = "Connection";

    fn table(&self, wide: bool) -> Table {
        self.table(wide)
    }
}
