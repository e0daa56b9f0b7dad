//! Converts the entries of a table to a [`PacketFilter`]
//! ([`include/uapi/linux/netfilter_ipv4/ip_tables.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/netfilter_ipv4/ip_tables.h)).
//! Numbers are in host byte order.

use std::collections::BTreeMap;

use nix::sys::socket::AddressFamily;
use usher_core::node::packet_filter::{Branch, Chain, Hook, Index, PacketFilter, Point, Rule};

use crate::net::{u16_at, u32_at};

/// The hooks in the order of their numbers.
const POINTS: [Point; 5] = [
    Point::Prerouting,
    Point::Input,
    Point::Forward,
    Point::Output,
    Point::Postrouting,
];
/// Cost of a match or target that runs a kernel module.
const MODULE: u64 = 16;

// `struct ipt_getinfo`.
const VALID_HOOKS: usize = 32;
const HOOK_ENTRIES: usize = 36;
const ENTRY_COUNT: usize = 76;
const SIZE: usize = 80;

// `struct xt_entry_target`. A standard target is followed by a verdict.
const TARGET_NAME: usize = 2;
const TARGET_NAME_END: usize = 31;
const TARGET_VERDICT: usize = 32;
/// The target of the entry before each user-defined chain.
const ERROR: &[u8] = b"ERROR";

/// Offsets in an entry, for one version of IP.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) family: AddressFamily,
    /// Level of the socket option.
    pub(super) level: libc::c_int,
    flags: usize,
    goto: u8,
    target_offset: usize,
    next_offset: usize,
    header: usize,
}

impl Layout {
    /// Offset of the entries in `struct ipt_get_entries`.
    pub(super) const ENTRIES: usize = 40;

    pub(super) const IPV4: Self = Self {
        family: AddressFamily::Inet,
        level: libc::IPPROTO_IP,
        flags: 82,
        goto: 2,
        target_offset: 88,
        next_offset: 90,
        header: 112,
    };

    pub(super) const IPV6: Self = Self {
        family: AddressFamily::Inet6,
        level: libc::IPPROTO_IPV6,
        flags: 131,
        goto: 4,
        target_offset: 140,
        next_offset: 142,
        header: 168,
    };
}

/// A table without its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableInfo {
    /// Offset of each hook's chain.
    hooks: [Option<usize>; POINTS.len()],
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

impl TableInfo {
    pub(super) const LENGTH: usize = 84;

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let valid = u32_at(bytes, VALID_HOOKS)?;
        let mut hooks = [None; POINTS.len()];
        for (index, hook) in hooks.iter_mut().enumerate() {
            if valid & (1 << index) != 0 {
                *hook = Some(usize::try_from(u32_at(bytes, HOOK_ENTRIES + 4 * index)?).ok()?);
            }
        }
        Some(Self {
            hooks,
            entries: usize::try_from(u32_at(bytes, ENTRY_COUNT)?).ok()?,
            bytes: usize::try_from(u32_at(bytes, SIZE)?).ok()?,
        })
    }
}

#[derive(Debug)]
struct Entry<'a> {
    /// Offset of the entry.
    offset: usize,
    next: usize,
    goes_to: bool,
    modules: u64,
    name: &'a [u8],
    /// Verdict of a standard target: an offset to jump to, or a negative code.
    verdict: i32,
}

/// Adds the chains of a table.
pub(super) fn add(filter: &mut PacketFilter, layout: &Layout, info: &TableInfo, bytes: &[u8]) {
    let entries = entries(layout, bytes);
    let mut starts = BTreeMap::new();
    let mut after_error = false;
    for entry in &entries {
        let mut hooks = hooks(layout, info, entry.offset);
        if let Some(hook) = hooks.next() {
            starts.insert(entry.offset, begin(filter, Some(hook)));
        } else if after_error {
            starts.insert(entry.offset, begin(filter, None));
        }
        // Several hooks may share a chain.
        for hook in hooks {
            let shared = starts.get(&entry.offset).copied().unwrap_or(Index::MAX);
            let index = begin(filter, Some(hook));
            filter.chains[index].rules.push(Rule {
                expressions: 0,
                branches: vec![Branch::Goto(shared)],
            });
        }
        after_error = entry.name == ERROR;
    }
    for entry in entries.iter().filter(|entry| entry.name != ERROR) {
        let chain = starts.range(..=entry.offset).next_back();
        if let Some(chain) = chain.and_then(|(_start, index)| filter.chains.get_mut(*index)) {
            chain.rules.push(rule(entry, &starts));
        }
    }
}

fn begin(filter: &mut PacketFilter, hook: Option<Hook>) -> Index {
    filter.chains.push(Chain {
        hook,
        rules: Vec::new(),
    });
    filter.chains.len() - 1
}

/// The hooks whose chain starts at this offset.
fn hooks(layout: &Layout, info: &TableInfo, offset: usize) -> impl Iterator<Item = Hook> {
    let (ipv4, ipv6) = (
        layout.family == AddressFamily::Inet,
        layout.family == AddressFamily::Inet6,
    );
    let starts = info.hooks.into_iter().zip(POINTS);
    starts
        .filter(move |(start, _point)| *start == Some(offset))
        .map(move |(_start, point)| Hook { point, ipv4, ipv6 })
}

fn rule(entry: &Entry<'_>, starts: &BTreeMap<usize, Index>) -> Rule {
    let target = usize::try_from(entry.verdict)
        .ok()
        // Without a target, evaluation continues with the next rule.
        .filter(|target| entry.name.is_empty() && *target != entry.next)
        .map(|target| starts.get(&target).copied().unwrap_or(Index::MAX))
        .map(|chain| match entry.goes_to {
            true => Branch::Goto(chain),
            false => Branch::Jump(chain),
        });
    let target_module = if entry.name.is_empty() { 0 } else { MODULE };
    Rule {
        expressions: 1 + entry.modules * MODULE + target_module,
        branches: target.into_iter().collect(),
    }
}

/// The entries before the first malformed one.
fn entries<'a>(layout: &Layout, bytes: &'a [u8]) -> Vec<Entry<'a>> {
    let mut all = Vec::new();
    let mut offset = 0;
    while let Some(entry) = bytes
        .get(offset..)
        .and_then(|rest| entry(layout, offset, rest))
    {
        offset = entry.next;
        all.push(entry);
    }
    all
}

fn entry<'a>(layout: &Layout, offset: usize, bytes: &'a [u8]) -> Option<Entry<'a>> {
    let target_offset = usize::from(u16_at(bytes, layout.target_offset)?);
    let length = usize::from(u16_at(bytes, layout.next_offset)?);
    let matches = bytes.get(layout.header..target_offset)?;
    let target = bytes.get(target_offset..length)?;
    let name = target.get(TARGET_NAME..TARGET_NAME_END)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    Some(Entry {
        offset,
        next: offset + length,
        goes_to: bytes.get(layout.flags)? & layout.goto != 0,
        modules: modules(matches),
        name: &name[..end],
        verdict: u32_at(target, TARGET_VERDICT).map_or(-1, u32::cast_signed),
    })
}

/// The number of matches; each starts with its length.
fn modules(matches: &[u8]) -> u64 {
    let mut rest = matches;
    let mut count = 0;
    while let Some(length) = u16_at(rest, 0)
        .map(usize::from)
        .filter(|length| *length > 0)
    {
        count += 1;
        rest = rest.get(length..).unwrap_or_default();
    }
    count
}

#[cfg(test)]
mod tests;
