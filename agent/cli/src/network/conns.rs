//! `usher conns`: the sockets of a pod, their owners, and their path through the mesh.

mod gather;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use usher_core::{
    admin::Origin,
    node::socket::{Protocol, State},
};
use usher_inspect::{
    conns::{Conns, Filter},
    text::{printable::clean, table::Table},
};

pub(crate) use self::gather::{Detail, gather};
use crate::{
    data_source::{
        DataSource,
        node::{Node, Target},
    },
    failure::Failure,
    global::{Exit, Format, Global},
    output::{Output, Report, SysdumpReport},
    stderr::print_stderr,
};

/// List a pod's sockets with their containers and processes, and their path through the mesh
///
/// The output of netstat or ss, for a pod that has neither: the sockets are read from the node, and nothing runs in the
/// pod. Listeners come first; their RECV-Q is the accept queue and its limit. VIA is the path of an app's connection:
/// direct, redirected to a sidecar (through), received from a sidecar (from) or addressed to a sidecar (to). For a
/// sidecar's socket, VIA is the app that it serves (for). "?" is unknown; -o wide adds the reason.
///
/// By default, all open sockets are listed; connections in TIME-WAIT are only
/// counted. Sockets that could not be read are reported on standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pod: namespace/name, UID, container ID, PID, IP address or a unique part of its name
    pod: String,

    /// Only listeners, and datagram sockets without a peer
    #[arg(short, long)]
    listening: bool,

    /// Also list connections in TIME-WAIT and sockets without an address
    #[arg(short, long)]
    all: bool,

    /// Only sockets in this state; repeatable
    #[arg(short, long, value_name = "STATE", ignore_case = true, value_parser = states())]
    state: Vec<State>,

    /// Only sockets with this port at either end; repeatable
    #[arg(short, long, value_name = "PORT")]
    port: Vec<u16>,

    /// Only sockets of this container; repeatable
    #[arg(short, long, value_name = "NAME")]
    container: Vec<String>,

    /// Only TCP, unless --udp is given as well
    #[arg(short, long)]
    tcp: bool,

    /// Only UDP, unless --tcp is given as well
    #[arg(short, long)]
    udp: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let source = DataSource::open_quietly(global).await?;
    let detail = match global.output {
        Format::Table => Detail::Plain,
        Format::Wide | Format::Json | Format::Yaml => Detail::Full,
    };
    let gathered = gather(&source, &args.pod, detail);
    let conns = source.answer(Some(&args.pod), gathered).await?;
    let from = match source.origin() {
        Origin::File => Origin::File,
        // The sockets come from the kernel, with or without an agent.
        Origin::Agent | Origin::Node => Origin::Node,
    };
    let conns = filtered(conns, args)?;
    for remark in conns.remarks() {
        print_stderr(&clean(&remark));
    }
    Output::new(global).show(from, conns)?;
    Ok(Exit::Success)
}

impl SysdumpReport for Conns {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "conns";
}

/// All sockets of a resolved pod, with the details that determine their paths through the mesh.
pub(super) fn sockets_of(node: &Node, target: &Target) -> Result<Conns, Failure> {
    gather::sockets_of(node, target, Detail::Plain)
}

fn filtered(conns: Conns, args: &Args) -> Result<Conns, Failure> {
    let unknown = |name: &&String| !conns.containers.contains(name);
    if let Some(name) = args.container.iter().find(unknown) {
        let text = format!(
            "{} has no running container {name:?}; running containers: {}",
            conns.pod,
            conns.containers.join(", ")
        );
        return Err(Failure::usage(text));
    }
    let requested = [(args.tcp, Protocol::Tcp), (args.udp, Protocol::Udp)];
    let protocols = requested
        .into_iter()
        .filter(|(is_requested, _)| *is_requested);
    Ok(conns.filtered(&Filter {
        all: args.all,
        listening: args.listening,
        states: args.state.clone(),
        ports: args.port.clone(),
        containers: args.container.clone(),
        protocols: protocols.map(|(_, protocol)| protocol).collect(),
    }))
}

/// The names that `ss` uses, in any case, and their long forms.
fn states() -> impl TypedValueParser<Value = State> {
    let words = State::ALL.map(|state| {
        let word = PossibleValue::new(state.into_str());
        match state {
            State::Established => word.alias("established"),
            State::Listen => word.alias("listening"),
            State::Unconnected => word.aliases(["unconnected", "closed"]),
            _ => word,
        }
    });
    PossibleValuesParser::new(words).try_map(|word: String| word.parse::<State>())
}

impl Report for Conns {
    const KIND: &'static str = "Conns";

    fn table(&self, wide: bool) -> Table {
        self.table(wide)
    }
}
