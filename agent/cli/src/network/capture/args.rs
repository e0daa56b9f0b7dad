//! The command line of `usher capture`.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use usher_core::{
    base::duration,
    node::packet::{Direction, Interface},
};
use usher_inspect::capture::{
    Filter,
    filter::{Host, MOST, Protocol},
};
use usher_sys::net::packet::{LONGEST, SMALLEST_ROOM};

use crate::{
    failure::Failure,
    global::{Exit, Format, Global},
    network::size,
};

/// The largest ring: more than that is another tool's work.
const MOST_ROOM: u64 = 256 * 1024 * 1024;

/// Capture the packets of a pod, as tcpdump would in it
///
/// Nothing runs in the pod: the kernel copies packets to a socket in the pod's
/// network namespace. Without -w each packet is a line; with it they are pcapng,
/// for Wireshark and tshark, with a comment at each connection's first packet that
/// names the container that listens:
///
///   kubectl exec -n usher ds/usher -- usher capture shop/report -w - | wireshark -k -i -
///
/// Packets on loopback are captured once, when they come in. Values of one
/// flag are alternatives (--port 80,443), different flags must all fit. It ends
/// at the first of --count, --duration and --size, at SIGINT and SIGTERM, and when
/// nobody reads any more, and says how many packets there were and how many the
/// kernel had to drop. Needs CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_NET_RAW, which
/// the agent's container has.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,

    /// Write pcapng to a new file, or to standard output (-)
    #[arg(short, long, value_name = "FILE")]
    pub(super) write: Option<PathBuf>,

    /// Write over a file that is there
    #[arg(long, requires = "write")]
    pub(super) force: bool,

    /// Only packets from or to these ports (TCP, UDP)
    #[arg(short, long, value_name = "PORT", value_delimiter = ',', help_heading = "Filter",
          value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,

    /// Only packets from or to these IP addresses or networks (10.0.0.0/8)
    #[arg(
        long,
        value_name = "IP",
        value_delimiter = ',',
        help_heading = "Filter"
    )]
    host: Vec<Host>,

    /// Only packets of these protocols
    #[arg(
        long,
        value_enum,
        value_name = "PROTOCOL",
        value_delimiter = ',',
        help_heading = "Filter"
    )]
    protocol: Vec<ProtocolName>,

    /// Only packets of these interfaces (lo, eth0)
    #[arg(
        short,
        long,
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Filter"
    )]
    interface: Vec<String>,

    /// Only packets that come to the pod, or that leave it; loopback's are both
    #[arg(long, value_enum, value_name = "WAY", help_heading = "Filter")]
    direction: Option<Way>,

    /// End after so many packets
    #[arg(short, long, value_name = "PACKETS", help_heading = "Bounds",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,

    /// End after this time
    #[arg(long, default_value = "60s", value_parser = duration::parse, help_heading = "Bounds")]
    pub(super) duration: Duration,

    /// End before there is more than this in the file
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = size::parse, help_heading = "Bounds")]
    pub(super) size: u64,

    /// Take the first bytes of each packet only
    #[arg(long, default_value_t = LONGEST, value_name = "BYTES", help_heading = "Bounds",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LONGEST)))]
    pub(super) snaplen: u32,

    /// Memory for packets that were not written yet
    #[arg(long, default_value = "4MiB", value_name = "SIZE", value_parser = size::parse, help_heading = "Bounds")]
    pub(super) buffer: u64,

    /// Also where the pod is in the node's own network: all of the node's packets
    #[arg(long)]
    pub(super) host_network: bool,
}

/// A protocol by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolName {
    Tcp,
    Udp,
    /// ICMP and ICMPv6
    Icmp,
}

/// A direction by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    In,
    Out,
}

impl Args {
    /// Says what cannot be meant.
    pub(super) fn check(&self, global: &Global) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::new(Exit::Usage, text));
        if global.file.is_some() {
            return usage("no packets are in a sysdump: capture works on a node only");
        }
        if !matches!(global.output, Format::Table | Format::Wide) {
            return usage("packets are lines, or pcapng with -w: there is no -o json here");
        }
        let lists = [self.port.len(), self.host.len(), self.interface.len()];
        if lists.into_iter().any(|length| length > MOST) {
            return usage("more than 32 values of one flag are not taken");
        }
        let has_ports = |protocol: &ProtocolName| *protocol != ProtocolName::Icmp;
        if !self.port.is_empty()
            && !self.protocol.is_empty()
            && !self.protocol.iter().any(has_ports)
        {
            return usage("ICMP has no ports: no packet would fit");
        }
        if !(SMALLEST_ROOM as u64..=MOST_ROOM).contains(&self.buffer) {
            return usage("--buffer is from 256KiB to 256MiB");
        }
        if self.writes_to_stdout() && io::stdout().is_terminal() {
            return usage(
                "standard output is a terminal, which pcapng would confuse. Leave out -w for lines, give a \
                 file with -w FILE, or a program that reads it: usher capture POD -w - | tshark -r -",
            );
        }
        Ok(())
    }

    fn writes_to_stdout(&self) -> bool {
        self.write.as_deref() == Some(Path::new("-"))
    }

    /// Which packets are wanted of these interfaces.
    pub(super) fn filter(&self, interfaces: &[Interface]) -> Result<Filter, Failure> {
        let number = |name: &String| {
            let found = interfaces.iter().find(|interface| interface.name == *name);
            found.map(|interface| interface.index).ok_or_else(|| {
                let names: Vec<&str> = interfaces.iter().map(|one| &one.name[..]).collect();
                let text = format!(
                    "the pod has no interface {name:?}, but {}",
                    names.join(", ")
                );
                Failure::new(Exit::Usage, text)
            })
        };
        Ok(Filter {
            interfaces: self
                .interface
                .iter()
                .map(number)
                .collect::<Result<_, _>>()?,
            direction: self.direction.map(|way| match way {
                Way::In => Direction::In,
                Way::Out => Direction::Out,
            }),
            protocols: self
                .protocol
                .iter()
                .map(|protocol| match protocol {
                    ProtocolName::Tcp => Protocol::Tcp,
                    ProtocolName::Udp => Protocol::Udp,
                    ProtocolName::Icmp => Protocol::Icmp,
                })
                .collect(),
            hosts: self.host.clone(),
            ports: self.port.clone(),
        })
    }
}
