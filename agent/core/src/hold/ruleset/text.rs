//! Formats rules as `nft list table inet usher` does, without the remaining time of elements and with counters at
//! zero ([nft(8)](https://www.netfilter.org/projects/nftables/manpage.html)).

use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

use super::{
    Chain, Element, Entry, Family, Key, Match, Queue, Rule, Ruleset, Set, TABLE, Then, Transport,
};

/// The priority that has a name in nft, except in the bridge family.
const RAW: i32 = -300;

impl Display for Ruleset {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "table inet {TABLE} {{")?;
        let mut empty_line = "";
        for set in &self.sets {
            write!(out, "{empty_line}{set}")?;
            empty_line = "\n";
        }
        for chain in &self.chains {
            write!(out, "{empty_line}{chain}")?;
            empty_line = "\n";
        }
        writeln!(out, "}}")
    }
}

impl Display for Set {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "\tset {} {{", self.name)?;
        writeln!(out, "\t\ttype {}", self.key)?;
        writeln!(out, "\t\tflags timeout")?;
        for (index, element) in self.elements.iter().enumerate() {
            out.write_str(if index == 0 {
                "\t\telements = { "
            } else {
                ", "
            })?;
            self.write_element(element, out)?;
        }
        if !self.elements.is_empty() {
            writeln!(out, " }}")?;
        }
        writeln!(out, "\t}}")
    }
}

impl Set {
    fn write_element(&self, element: &Element, out: &mut Formatter<'_>) -> fmt::Result {
        match (self.key, element.value) {
            (Key::Protocol, 6) => out.write_str("tcp"),
            (Key::Protocol, 17) => out.write_str("udp"),
            (_, value) => write!(out, "{value}"),
        }?;
        match element.timeout {
            Some(timeout) => write!(out, " timeout {}", Time(timeout)),
            None => Ok(()),
        }
    }
}

impl Display for Key {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => out.write_str("inet_service"),
            Self::Protocol => out.write_str("inet_proto"),
            Self::Other(number) => write!(out, "type{number}"),
        }
    }
}

impl Display for Chain {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "\tchain {} {{", self.name)?;
        writeln!(out, "\t\t{}", self.entry)?;
        for rule in &self.rules {
            writeln!(out, "\t\t{rule}")?;
        }
        writeln!(out, "\t}}")
    }
}

impl Display for Entry {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output { priority: RAW } => {
                out.write_str("type filter hook output priority raw; policy accept;")
            }
            Self::Output { priority } => {
                write!(
                    out,
                    "type filter hook output priority {priority}; policy accept;"
                )
            }
            Self::Other(text) => out.write_str(text),
        }
    }
}

impl Display for Rule {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for part in &self.matches {
            write!(out, "{space}{part}")?;
            space = " ";
        }
        for part in &self.then {
            write!(out, "{space}{part}")?;
            space = " ";
        }
        Ok(())
    }
}

impl Display for Match {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            // nft writes a priority as the handle of a traffic class.
            Self::Priority(value) => {
                write!(
                    out,
                    "meta priority {:04x}:{:04x}",
                    value >> 16,
                    value & 0xffff
                )
            }
            Self::User(id) => write!(out, "meta skuid {id}"),
            Self::Group(id) => write!(out, "meta skgid {id}"),
            Self::ProtocolIn(set) => write!(out, "meta l4proto @{set}"),
            Self::Loopback(Family::V4) => out.write_str("ip daddr 127.0.0.0/8"),
            Self::Loopback(Family::V6) => out.write_str("ip6 daddr ::1"),
            Self::PortIn(Transport::Tcp, set) => write!(out, "tcp dport @{set}"),
            Self::PortIn(Transport::Udp, set) => write!(out, "udp dport @{set}"),
            Self::Opens => out.write_str("tcp flags syn / fin,syn,rst,ack"),
            Self::Other(name) => out.write_str(name),
        }
    }
}

impl Display for Then {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => out.write_str("counter packets 0 bytes 0"),
            Self::Copy(group) => write!(out, "log group {group} queue-threshold 1"),
            Self::Accept => out.write_str("accept"),
            Self::Drop => out.write_str("drop"),
            Self::Queue(number, Queue::Native) => write!(out, "queue flags bypass to {number}"),
            // The notation of iptables, to which the target belongs.
            Self::Queue(number, Queue::Compat) => write!(out, "queue num {number} bypass"),
            Self::Other(name) => out.write_str(name),
        }
    }
}

/// A duration in nft's notation: `1m500ms`.
struct Time(Duration);

impl Display for Time {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let parts = [
            (seconds / 86_400, "d"),
            (seconds / 3600 % 24, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (self.0.subsec_millis().into(), "ms"),
        ];
        let mut nothing = true;
        for (number, unit) in parts {
            if number > 0 {
                write!(out, "{number}{unit}")?;
                nothing = false;
            }
        }
        if nothing {
            out.write_str("0s")?;
        }
        Ok(())
    }
}
