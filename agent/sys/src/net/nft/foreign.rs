//! ForeignChain tables in a network namespace: the chains of all tables, and how many rules each has. The rules themselves
//! are not read.
//!
//! Rules of `iptables-nft` are included, because it writes to nftables. Rules of `iptables-legacy` are in another
//! subsystem of the kernel, which nftables does not list.

use std::{collections::BTreeMap, io, ops::ControlFlow};

use nix::errno::Errno;
use usher_core::hold::ruleset::TABLE;

use super::{
    NftError, Operation,
    batch::discard_unread,
    number::{
        CHAIN_GET, CHAIN_NEW, FAMILY, HEADER, NAME_OF_TABLE, RULE_GET, RULE_NEW, chain, rules,
    },
};
use crate::net::netlink::{
    Socket,
    attribute::find,
    message::{self, Message, Verdict},
};

/// Most chains that are listed; a mesh has about twelve.
const CHAINS: usize = 512;
const ANY: u8 = 0;

/// A chain of a foreign table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignChain {
    /// The family of its table: `ip`, `ip6`, `inet`, ...
    pub family: &'static str,
    pub table: String,
    pub chain: String,
    /// Hook of the chain, such as `nat output -100`; None for a chain that only other chains jump to.
    pub entry: Option<String>,
    pub rules: usize,
}

/// ForeignChain tables of a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignTables {
    /// Chains, by family, table and name.
    pub chains: Vec<ForeignChain>,
    /// Chains beyond the limit, which are only counted.
    pub omitted: usize,
}

type Key = (u8, String, String);

#[derive(Default)]
struct Collector {
    chains: BTreeMap<Key, (Option<String>, usize)>,
    omitted: usize,
}

/// Lists foreign chains. A kernel without nftables has none.
///
/// # Errors
/// [`NftError`].
pub fn foreign_tables(socket: &Socket) -> Result<ForeignTables, NftError> {
    let mut found = Collector::default();
    for (kind, object) in [(CHAIN_GET, "chain"), (RULE_GET, "rule")] {
        match query(socket, object, kind, &mut found) {
            // The error of nfnetlink for an absent subsystem.
            Err(error) if error.source.raw_os_error() == Some(Errno::EINVAL as i32) => break,
            listed => listed?,
        }
    }
    Ok(ForeignTables {
        chains: found
            .chains
            .into_iter()
            .map(|((family, table, chain), (entry, rules))| ForeignChain {
                family: family_name(family),
                table,
                chain,
                entry,
                rules,
            })
            .collect(),
        omitted: found.omitted,
    })
}

fn query(
    socket: &Socket,
    object: &'static str,
    kind: u16,
    found: &mut Collector,
) -> Result<(), NftError> {
    let mut bytes = Vec::new();
    message::put(&mut bytes, kind, message::DUMP, 1, |body| {
        body.extend_from_slice(&[ANY, 0, 0, 0]);
    });
    let fail = |source: io::Error, detail| NftError {
        operation: Operation::Dump,
        object,
        detail,
        source,
    };
    discard_unread(socket).map_err(|source| fail(source, None))?;
    let verdict = socket.request(&bytes, |message| match message.verdict() {
        Some(verdict) => ControlFlow::Break(verdict),
        None => {
            found.take(message);
            ControlFlow::Continue(())
        }
    });
    match verdict {
        Ok(Verdict::Done) => Ok(()),
        Ok(Verdict::Rejected { errno, detail }) => Err(fail(errno.into(), detail)),
        Err(source) => Err(fail(source, None)),
    }
}

impl Collector {
    /// Adds the object of a message; a message without a required attribute is skipped.
    fn take(&mut self, message: Message<'_>) {
        let (Some(family), Some(body)) = (message.body.first(), message.body.get(HEADER..)) else {
            return;
        };
        let text = |kind| find(body, kind).and_then(|text| text.text().map(str::to_owned));
        let Some(table) = text(NAME_OF_TABLE) else {
            return;
        };
        if *family == FAMILY && table == TABLE {
            return;
        }
        match message.kind {
            CHAIN_NEW => {
                if let Some(chain) = text(chain::NAME) {
                    if self.chains.len() < CHAINS {
                        let key = (*family, table, chain);
                        self.chains.insert(key, (entry(body), 0));
                    } else {
                        self.omitted += 1;
                    }
                }
            }
            RULE_NEW => {
                let key = text(rules::CHAIN).map(|chain| (*family, table, chain));
                if let Some((_entry, rules)) = key.and_then(|key| self.chains.get_mut(&key)) {
                    *rules += 1;
                }
            }
            _ => {}
        }
    }
}

fn entry(body: &[u8]) -> Option<String> {
    let hook = find(body, chain::HOOK)?;
    let in_hook = |kind| find(hook.value, kind).and_then(|number| number.u32());
    let number = in_hook(chain::HOOK_NUMBER)?;
    let priority = in_hook(chain::PRIORITY).unwrap_or_default().cast_signed();
    let kind = find(body, chain::TYPE).and_then(|kind| kind.text());
    let hooks = ["prerouting", "input", "forward", "output", "postrouting"];
    let place = usize::try_from(number).ok();
    let hook = place.and_then(|place| hooks.get(place)).copied();
    Some(format!(
        "{} {} {priority}",
        kind.unwrap_or("?"),
        hook.unwrap_or("?")
    ))
}

/// The families of netfilter
/// ([`include/uapi/linux/netfilter.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/netfilter.h)).
const fn family_name(family: u8) -> &'static str {
    match family {
        FAMILY => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::netlink::attribute::{put_text, put_u32};

    fn chain_message(family: u8, table: &str, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        message::put(&mut bytes, CHAIN_NEW, 0, 1, |body| {
            body.extend_from_slice(&[family, 0, 0, 0]);
            put_text(body, NAME_OF_TABLE, table);
            put_text(body, chain::NAME, name);
        });
        bytes
    }

    #[test]
    fn decoder_accepts_truncated_messages_and_bounds_the_list() {
        let mut found = Collector::default();
        let whole = chain_message(2, "nat", "ISTIO_OUTPUT");
        for end in 0..=whole.len() {
            for message in message::messages(&whole[..end]) {
                for cut in 0..=message.body.len() {
                    let body = &message.body[..cut];
                    found.take(Message { body, ..message });
                }
            }
        }
        assert_eq!(found.chains.len(), 1, "only the whole message has a chain");
        for number in 0..CHAINS {
            let bytes = chain_message(2, "nat", &number.to_string());
            message::messages(&bytes).for_each(|message| found.take(message));
        }
        assert_eq!((found.chains.len(), found.omitted), (CHAINS, 1));
        // usher's own table is not foreign.
        let own = chain_message(FAMILY, TABLE, "gate");
        message::messages(&own).for_each(|message| found.take(message));
        assert_eq!(found.omitted, 1);
        let mut hook = Vec::new();
        put_u32(&mut hook, chain::HOOK_NUMBER, 99);
        assert_eq!(entry(&hook), None);
    }
}
