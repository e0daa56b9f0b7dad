//! Arguments of `usher capture`.

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
use usher_inspect::{
    capture::{
        Filter,
        filter::{Host, MAX_VALUES, Protocol},
    },
    sysdump::measure,
};
use usher_sys::net::packet::{LONGEST, SMALLEST_ROOM};

use crate::{failure::Failure, global::Global};

/// Limit of the ring buffer.
const MAX_BUFFER: u64 = 256 * 1024 * 1024;

/// Capture the packets of a pod, as tcpdump in the pod would
///
/// Nothing runs in the pod: the kernel copies packets to a socket in the pod's network namespace. By default each
/// packet is printed as a line. With -w the packets are written as pcapng, for Wireshark and tshark; a comment at the
/// first packet of each connection names the container that listens:
///
///   kubectl usher capture shop/report -w - | wireshark -k -i -
///
/// Packets on loopback are captured once, when they are received. Values of one flag are alternatives (--port 80,443);
/// different flags must all match. The capture ends at the first of --count, --duration and --size, at SIGINT or
/// SIGTERM, or when the reader of standard output exits. It then reports the number of packets captured, and of those
/// that the kernel dropped. Needs CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_NET_RAW, which the agent's container has.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pod: namespace/name, UID, container ID, PID, IP address or a unique part of its name
    pub(super) pod: String,

    /// Write pcapng to a new file, or to standard output (-)
    #[arg(short, long, value_name = "FILE")]
    pub(super) write: Option<PathBuf>,

    /// Overwrite an existing file
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

    /// Only packets that the pod receives or sends; packets on loopback are both
    #[arg(long, value_enum, value_name = "DIRECTION", help_heading = "Filter")]
    direction: Option<DirectionName>,

    /// Stop after this many packets
    #[arg(long, value_name = "PACKETS", help_heading = "Bounds",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,

    /// Stop after this time
    #[arg(long, default_value = "60s", value_parser = duration::parse, help_heading = "Bounds")]
    pub(super) duration: Duration,

    /// Stop before the file exceeds this size
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = measure::size_above_zero, help_heading = "Bounds")]
    pub(super) size: u64,

    /// Capture at most this many bytes of each packet
    #[arg(long, default_value_t = LONGEST, value_name = "BYTES", help_heading = "Bounds",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LONGEST)))]
    pub(super) snaplen: u32,

    /// Buffer for packets that are not written yet
    #[arg(long, default_value = "4MiB", value_name = "SIZE", value_parser = measure::size_above_zero, help_heading = "Bounds")]
    pub(super) buffer: u64,

    /// Allow a pod that uses the node's network, and with it all packets of the node
    #[arg(long)]
    pub(super) host_network: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolName {
    Tcp,
    Udp,
    /// ICMP and ICMPv6
    Icmp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DirectionName {
    In,
    Out,
}

impl Args {
    /// Rejects combinations that cannot work.
    pub(super) fn check(&self, global: &Global) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::usage(text));
        if !global.output.is_for_people() {
            return usage("capture prints lines, or pcapng with -w, and does not support -o json");
        }
        let lists = [self.port.len(), self.host.len(), self.interface.len()];
        if lists.into_iter().any(|length| length > MAX_VALUES) {
            return usage("a flag accepts at most 32 values");
        }
        let has_ports = |protocol: &ProtocolName| *protocol != ProtocolName::Icmp;
        if !self.port.is_empty()
            && !self.protocol.is_empty()
            && !self.protocol.iter().any(has_ports)
        {
            return usage("--port cannot match --protocol icmp: ICMP has no ports");
        }
        if !(SMALLEST_ROOM as u64..=MAX_BUFFER).contains(&self.buffer) {
            return usage("--buffer must be from 256KiB to 256MiB");
        }
        if self.writes_to_stdout() && io::stdout().is_terminal() {
            return usage(
                "standard output is a terminal, and pcapng is binary. Omit -w to print lines, write a file with -w \
                 FILE, or pipe the output to a program: usher capture POD -w - | tshark -r -",
            );
        }
        Ok(())
    }

    fn writes_to_stdout(&self) -> bool {
        self.write.as_deref() == Some(Path::new("-"))
    }

    pub(super) fn filter(&self, interfaces: &[Interface]) -> Result<Filter, Failure> {
        let number = |name: &String| {
            let found = interfaces.iter().find(|interface| interface.name == *name);
            found.map(|interface| interface.index).ok_or_else(|| {
                let names: Vec<&str> = interfaces.iter().map(|one| &one.name[..]).collect();
                let text = format!(
                    "the pod has no interface {name:?}; interfaces: {}",
                    names.join(", ")
                );
                Failure::usage(text)
            })
        };
        Ok(Filter {
            interfaces: self
                .interface
                .iter()
                .map(number)
                .collect::<Result<_, _>>()?,
            direction: self.direction.map(|direction| match direction {
                DirectionName::In => Direction::In,
                DirectionName::Out => Direction::Out,
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
