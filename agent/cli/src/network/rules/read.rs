//! Reads the rules of one network namespace.

use usher_client::error_chain::chain;
use usher_core::{base::id::Pid, hold::ruleset::Ruleset};
use usher_sys::net::{
    netlink::{Protocol, Socket},
    nft,
};

use super::report::{Expiry, Foreign, Rules, Table};
use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
};

/// Files that list the tables of iptables-legacy in a namespace, one name per line.
const LEGACY: [&str; 2] = ["net/ip_tables_names", "net/ip6_tables_names"];
/// Limit of such a file, which has a few names.
const MAX_LEGACY_BYTES: usize = 1024;

/// An open namespace.
#[derive(Debug)]
pub(super) struct Reading {
    socket: Socket,
    pod: String,
    uid: String,
    netns: String,
    legacy: Vec<String>,
}

impl Reading {
    pub(super) fn open(node: &Node, target: &Target) -> Result<Self, Failure> {
        let netns = target.netns(node)?;
        let socket = netns.netlink(Protocol::Netfilter).map_err(|error| {
            Failure::refused(format!("{}; this needs CAP_SYS_ADMIN", chain(&error)))
        })?;
        Ok(Self {
            socket,
            pod: target.pod.display_name(),
            uid: target.uid.to_string(),
            netns: netns.id().to_string(),
            legacy: legacy(node, target),
        })
    }

    /// The table inet usher only.
    pub(super) fn table(&self) -> Result<Option<Ruleset>, Failure> {
        let found = nft::dump(&self.socket).map_err(|error| refused(&error))?;
        Ok(found.map(|found| found.ruleset))
    }

    pub(super) fn rules(&self) -> Result<Rules, Failure> {
        let found = nft::dump(&self.socket).map_err(|error| refused(&error))?;
        let foreign_tables = nft::foreign_tables(&self.socket).map_err(|error| refused(&error))?;
        let table = found.map(|found| Table {
            text: found.ruleset.to_string(),
            packets: found.packets,
            expires: found
                .remaining
                .iter()
                .map(|remaining| Expiry {
                    set: remaining.set.clone(),
                    value: remaining.value,
                    left_ms: u64::try_from(remaining.time.as_millis()).unwrap_or(u64::MAX),
                })
                .collect(),
        });
        let foreign = foreign_tables.chains.into_iter().map(|chain| Foreign {
            family: chain.family.to_owned(),
            table: chain.table,
            chain: chain.chain,
            entry: chain.hook.map(|hook| hook.to_string()),
            rules: chain.rules,
        });
        Ok(Rules {
            pod: self.pod.clone(),
            uid: self.uid.clone(),
            netns: self.netns.clone(),
            table,
            others: foreign.collect(),
            others_left_out: foreign_tables.omitted,
            legacy_tables: self.legacy.clone(),
            compared: None,
        })
    }
}

fn refused(error: &nft::NftError) -> Failure {
    let hint = match error.source.kind() {
        std::io::ErrorKind::PermissionDenied => "; this needs CAP_NET_ADMIN",
        _ => "",
    };
    Failure::refused(format!("{}{hint}", chain(error)))
}

/// The tables of iptables-legacy that the kernel lists.
fn legacy(node: &Node, target: &Target) -> Vec<String> {
    let mut inits = target.running();
    let names = inits.find_map(|container| {
        let init = container.init?;
        let names = of_process(node, init);
        target.has(&node.proc, container, init).then_some(names)
    });
    names.unwrap_or_default()
}

fn of_process(node: &Node, pid: Pid) -> Vec<String> {
    let texts = LEGACY.iter().map(|file| {
        let text = std::fs::read_to_string(node.proc.path(pid, file));
        let family = if file.contains('6') { "ip6" } else { "ip" };
        (family, text.unwrap_or_default())
    });
    let mut names = Vec::new();
    for (family, text) in texts.filter(|(_family, text)| text.len() <= MAX_LEGACY_BYTES) {
        names.extend(text.lines().map(|name| format!("{family} {name}")));
    }
    names
}
