//! What others have in a network namespace: the chains of all tables, and how many rules they have. What the rules
//! say is their owners' business.
//!
//! iptables shows here where it is the kind that writes to nftables (`iptables-nft`); rules of the older kind
//! (`iptables-legacy`) are in tables of another part of the kernel, which nftables knows nothing of.

use std::{collections::BTreeMap, io, ops::ControlFlow};

use nix::errno::Errno;
use usher_core::hold::ruleset::TABLE;

use super::{
    NftError, Operation,
    batch::forget,
    number::{
        CHAIN_GET, CHAIN_NEW, FAMILY, HEADER, NAME_OF_TABLE, RULE_GET, RULE_NEW, chain, rules,
    },
};
use crate::net::netlink::{
    Socket,
    attribute::find,
    message::{self, Message, Verdict},
};

/// Chains that are told one by one; a mesh has a dozen.
const CHAINS: usize = 512;
/// All families.
const ANY: u8 = 0;

/// A chain of somebody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The family of its table: `ip`, `ip6`, `inet`, ...
    pub family: &'static str,
    /// Its table.
    pub table: String,
    /// Its name.
    pub chain: String,
    /// Where packets enter it, such as `nat output -100`; None where only other chains lead to it.
    pub entry: Option<String>,
    /// How many rules it has.
    pub rules: usize,
}

/// What others have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// Their chains, by family, table and name.
    pub chains: Vec<Foreign>,
    /// Chains that are not among them, since there are so many.
    pub more: usize,
}

type Key = (u8, String, String);

#[derive(Default)]
struct Seen {
    chains: BTreeMap<Key, (Option<String>, usize)>,
    more: usize,
}

/// Reads what others have. A kernel without nftables has nothing.
///
/// # Errors
/// [`NftError`].
pub fn others(socket: &Socket) -> Result<Others, NftError> {
    let mut seen = Seen::default();
    for (kind, object) in [(CHAIN_GET, "chain"), (RULE_GET, "rule")] {
        match ask(socket, object, kind, &mut seen) {
            // What nfnetlink says of a subsystem that is not there.
            Err(error) if error.source.raw_os_error() == Some(Errno::EINVAL as i32) => break,
            asked => asked?,
        }
    }
    let chains = seen.chains.into_iter();
    let chains = chains.map(|((family, table, chain), (entry, rules))| Foreign {
        family: family_name(family),
        table,
        chain,
        entry,
        rules,
    });
    Ok(Others {
        chains: chains.collect(),
        more: seen.more,
    })
}

fn ask(socket: &Socket, object: &'static str, kind: u16, seen: &mut Seen) -> Result<(), NftError> {
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
    forget(socket).map_err(|source| fail(source, None))?;
    let verdict = socket.ask(&bytes, |message| match message.verdict() {
        Some(verdict) => ControlFlow::Break(verdict),
        None => {
            seen.take(message);
            ControlFlow::Continue(())
        }
    });
    match verdict {
        Ok(Verdict::Done) => Ok(()),
        Ok(Verdict::Refused { errno, detail }) => Err(fail(errno.into(), detail)),
        Err(source) => Err(fail(source, None)),
    }
}

impl Seen {
    /// Adds what a message says; one that lacks what it must have says nothing.
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
                        self.more += 1;
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
    fn nothing_makes_it_panic_and_nothing_makes_it_grow() {
        let mut seen = Seen::default();
        let whole = chain_message(2, "nat", "ISTIO_OUTPUT");
        for end in 0..=whole.len() {
            for message in message::messages(&whole[..end]) {
                for cut in 0..=message.body.len() {
                    let body = &message.body[..cut];
                    seen.take(Message { body, ..message });
                }
            }
        }
        assert_eq!(seen.chains.len(), 1, "only the whole one says something");
        for number in 0..CHAINS {
            let bytes = chain_message(2, "nat", &number.to_string());
            message::messages(&bytes).for_each(|message| seen.take(message));
        }
        assert_eq!((seen.chains.len(), seen.more), (CHAINS, 1));
        // Our own table is told elsewhere.
        let own = chain_message(FAMILY, TABLE, "gate");
        message::messages(&own).for_each(|message| seen.take(message));
        assert_eq!(seen.more, 1);
        let mut hook = Vec::new();
        put_u32(&mut hook, chain::HOOK_NUMBER, 99);
        assert_eq!(entry(&hook), None);
    }
}
