//! Lists the chains of all foreign tables in a network namespace, and the number of rules in each. The rules themselves
//! are not read.
//!
//! Rules of `iptables-nft` are included, because that program writes to nftables. Rules of `iptables-legacy` are in
//! another subsystem of the kernel, which nftables does not list.

use std::{collections::BTreeMap, fmt};

use nix::errno::Errno;
use usher_core::hold::ruleset::TABLE;

use super::{
    NftError, Operation,
    number::{
        CHAIN_GET, CHAIN_NEW, FAMILY, HEADER, NAME_OF_TABLE, RULE_GET, RULE_NEW, chain, rules,
    },
    query::Query,
};
use crate::net::netlink::{Socket, attribute::find, message::Message};

/// Maximum number of listed chains; a mesh has about twelve.
const CHAINS: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignChain {
    /// The family of its table: `ip`, `ip6`, `inet`, ...
    pub family: &'static str,
    pub table: String,
    pub chain: String,
    /// None for a chain that only other chains jump to.
    pub hook: Option<Hook>,
    pub rules: usize,
}

/// The hook of a base chain: `nat output -100`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    pub kind: ChainKind,
    pub point: HookPoint,
    pub priority: i32,
}

impl fmt::Display for Hook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            point,
            priority,
        } = self;
        write!(out, "{kind} {point} {priority}")
    }
}

/// The types of chains, with the kernel's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum ChainKind {
    Filter,
    Nat,
    Route,
    #[strum(to_string = "?")]
    Unknown,
}

/// The hooks of the families that handle IP packets, in the order of their numbers
/// ([`enum nf_inet_hooks`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/netfilter.h#L42)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::FromRepr)]
#[strum(serialize_all = "lowercase")]
#[repr(u32)]
pub enum HookPoint {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
    #[strum(to_string = "?")]
    Unknown,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignTables {
    /// Chains, by family, table and name.
    pub chains: Vec<ForeignChain>,
    /// Number of chains beyond the limit, which are not listed.
    pub omitted: usize,
}

type Key = (u8, String, String);

#[derive(Default)]
struct Collector {
    chains: BTreeMap<Key, (Option<Hook>, usize)>,
    omitted: usize,
}

/// Empty on a kernel without nftables.
pub fn foreign_tables(socket: &Socket) -> Result<ForeignTables, NftError> {
    let mut found = Collector::default();
    for (kind, object) in [(CHAIN_GET, "chain"), (RULE_GET, "rule")] {
        let query = Query::dump(Operation::Dump, object, kind);
        let take = |message: Message<'_>| {
            found.take(message);
            Ok(())
        };
        match query.send(socket, |_| {}, take) {
            Err(error) if error.has_no_nftables() => break,
            // The rules changed during the dump, so some may be missing.
            Err(error) if error.is(Errno::EINTR) => {}
            listed => listed?,
        }
    }
    Ok(ForeignTables {
        chains: found
            .chains
            .into_iter()
            .map(|((family, table, chain), (hook, rules))| ForeignChain {
                family: family_name(family),
                table,
                chain,
                hook,
                rules,
            })
            .collect(),
        omitted: found.omitted,
    })
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
                        self.chains.insert(key, (hook(body), 0));
                    } else {
                        self.omitted += 1;
                    }
                }
            }
            RULE_NEW => {
                let key = text(rules::CHAIN).map(|chain| (*family, table, chain));
                if let Some((_hook, rules)) = key.and_then(|key| self.chains.get_mut(&key)) {
                    *rules += 1;
                }
            }
            _ => {}
        }
    }
}

fn hook(body: &[u8]) -> Option<Hook> {
    let hook = find(body, chain::HOOK)?;
    let in_hook = |kind| find(hook.value, kind).and_then(|number| number.u32());
    let number = in_hook(chain::HOOK_NUMBER)?;
    let kind = find(body, chain::TYPE).and_then(|kind| kind.text());
    Some(Hook {
        kind: kind
            .and_then(|kind| kind.parse().ok())
            .unwrap_or(ChainKind::Unknown),
        point: HookPoint::from_repr(number).unwrap_or(HookPoint::Unknown),
        priority: in_hook(chain::PRIORITY).unwrap_or_default().cast_signed(),
    })
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
    use crate::net::netlink::{
        attribute::{nest, put, put_text, put_u32},
        message,
    };

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
        let own = chain_message(FAMILY, TABLE, "hold");
        message::messages(&own).for_each(|message| found.take(message));
        assert_eq!(found.omitted, 1);
        let mut no_hook = Vec::new();
        put_u32(&mut no_hook, chain::HOOK_NUMBER, 99);
        assert_eq!(hook(&no_hook), None);
    }

    #[test]
    fn hooks_are_decoded_by_kind_and_number() {
        let found = |kind: &str, number: u32| {
            let mut body = Vec::new();
            nest(&mut body, chain::HOOK, |body| {
                put_u32(body, chain::HOOK_NUMBER, number);
                put(body, chain::PRIORITY, &(-100_i32).to_be_bytes());
            });
            put_text(&mut body, chain::TYPE, kind);
            hook(&body).unwrap()
        };
        let output = Hook {
            kind: ChainKind::Nat,
            point: HookPoint::Output,
            priority: -100,
        };
        assert_eq!(found("nat", 3), output);
        assert_eq!(output.to_string(), "nat output -100");
        for (kind, number, text) in [
            ("filter", 0, "filter prerouting -100"),
            ("route", 4, "route postrouting -100"),
            ("new", 99, "? ? -100"),
        ] {
            assert_eq!(found(kind, number).to_string(), text);
        }
    }
}
