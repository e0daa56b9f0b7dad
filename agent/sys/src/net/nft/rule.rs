//! Converts rules to expressions of the kernel, and back.

use usher_core::hold::ruleset::{Family, Match, Rule, Then, Transport};

use super::expression::{ACCEPT, DROP, Expression, Field, Meta};

/// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
const V4: u8 = 2;
const V6: u8 = 10;

/// The first byte of an IPv4 packet's destination.
const TO_V4: Field = Field {
    base: 1,
    offset: 16,
    length: 1,
};
const LOOPBACK_V4: [u8; 1] = [127];
/// The destination of an IPv6 packet.
const TO_V6: Field = Field {
    base: 1,
    offset: 24,
    length: 16,
};
const LOOPBACK_V6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// The destination port of TCP and UDP.
const PORT: Field = Field {
    base: 2,
    offset: 2,
    length: 2,
};
/// The flags of TCP: the rule matches on FIN, SYN, RST and ACK.
const TCP_FLAGS: Field = Field {
    base: 2,
    offset: 13,
    length: 1,
};
const CONNECTION_FLAGS: [u8; 1] = [0x17];
const SYN: [u8; 1] = [0x02];

pub(super) fn expressions(rule: &Rule) -> Vec<Expression> {
    let mut list = Vec::with_capacity(16);
    let mut is_tcp = false;
    for part in &rule.matches {
        match part {
            Match::Priority(value) => test(&mut list, Meta::Priority, &value.to_ne_bytes()),
            Match::User(id) => test(&mut list, Meta::User, &id.to_ne_bytes()),
            Match::Group(id) => test(&mut list, Meta::Group, &id.to_ne_bytes()),
            Match::ProtocolIn(set) => {
                list.push(Expression::Meta(Meta::Protocol));
                list.push(Expression::Lookup(set.clone()));
            }
            Match::Loopback(Family::V4) => {
                test(&mut list, Meta::Version, &[V4]);
                list.push(Expression::Payload(TO_V4));
                list.push(Expression::Equals(LOOPBACK_V4.to_vec()));
            }
            Match::Loopback(Family::V6) => {
                test(&mut list, Meta::Version, &[V6]);
                list.push(Expression::Payload(TO_V6));
                list.push(Expression::Equals(LOOPBACK_V6.to_vec()));
            }
            Match::PortIn(transport, set) => {
                test(&mut list, Meta::Protocol, &[transport.number()]);
                is_tcp |= *transport == Transport::Tcp;
                list.push(Expression::Payload(PORT));
                list.push(Expression::Lookup(set.clone()));
            }
            Match::Opens => {
                if !is_tcp {
                    test(&mut list, Meta::Protocol, &[Transport::Tcp.number()]);
                }
                list.push(Expression::Payload(TCP_FLAGS));
                list.push(Expression::Mask(CONNECTION_FLAGS.to_vec()));
                list.push(Expression::Equals(SYN.to_vec()));
            }
            Match::Other(name) => list.push(Expression::Other(name.clone())),
        }
    }
    list.extend(rule.then.iter().map(|part| match part {
        Then::Count => Expression::Counter(0),
        Then::Copy(group) => Expression::Log(*group),
        Then::Accept => Expression::Verdict(ACCEPT),
        Then::Drop => Expression::Verdict(DROP),
        Then::Queue(number, queue) => Expression::Queue(*number, *queue),
        Then::Other(name) => Expression::Other(name.clone()),
    }));
    list
}

fn test(list: &mut Vec<Expression>, meta: Meta, value: &[u8]) {
    list.push(Expression::Meta(meta));
    list.push(Expression::Equals(value.to_vec()));
}

/// Converts a list of expressions to a rule, and returns the rule's packet count. An unknown expression becomes `Other`
/// at its position.
pub(super) fn rule(list: &[Expression]) -> (Rule, u64) {
    let mut rule = Rule::default();
    let mut packets = 0_u64;
    let mut is_tcp = false;
    let mut rest = list;
    while let Some((first, after)) = rest.split_first() {
        if let Some((found, after)) = condition(rest, is_tcp) {
            is_tcp |= matches!(found, Match::PortIn(Transport::Tcp, _) | Match::Opens);
            rule.matches.push(found);
            rest = after;
            continue;
        }
        if let Expression::Counter(count) = first {
            packets = packets.saturating_add(*count);
        }
        match action(first) {
            Some(found) => rule.then.push(found),
            None if rule.then.is_empty() => rule.matches.push(Match::Other(text(first))),
            None => rule.then.push(Then::Other(text(first))),
        }
        rest = after;
    }
    (rule, packets)
}

fn action(expression: &Expression) -> Option<Then> {
    match expression {
        Expression::Counter(_) => Some(Then::Count),
        Expression::Log(group) => Some(Then::Copy(*group)),
        Expression::Verdict(ACCEPT) => Some(Then::Accept),
        Expression::Verdict(_) => Some(Then::Drop),
        Expression::Queue(number, queue) => Some(Then::Queue(*number, *queue)),
        _ => None,
    }
}

/// The condition at the start of a list, and the rest of the list.
fn condition(list: &[Expression], is_tcp: bool) -> Option<(Match, &[Expression])> {
    use Expression::{Equals, Lookup, Mask, Payload};
    let known = |meta| Expression::Meta(meta);
    if let [first, Equals(value), rest @ ..] = list {
        let id = value.as_slice().try_into().map(u32::from_ne_bytes).ok();
        if *first == known(Meta::Priority) {
            return Some((Match::Priority(id?), rest));
        }
        if *first == known(Meta::User) {
            return Some((Match::User(id?), rest));
        }
        if *first == known(Meta::Group) {
            return Some((Match::Group(id?), rest));
        }
    }
    if let [
        first,
        Equals(version),
        Payload(field),
        Equals(address),
        rest @ ..,
    ] = list
        && *first == known(Meta::Version)
    {
        let fields = (version.as_slice(), *field, address.as_slice());
        if fields == (&[V4], TO_V4, &LOOPBACK_V4) {
            return Some((Match::Loopback(Family::V4), rest));
        }
        if fields == (&[V6], TO_V6, &LOOPBACK_V6) {
            return Some((Match::Loopback(Family::V6), rest));
        }
    }
    if let [
        first,
        Equals(protocol),
        Payload(PORT),
        Lookup(set),
        rest @ ..,
    ] = list
        && *first == known(Meta::Protocol)
        && let Some(transport) = transport(protocol)
    {
        return Some((Match::PortIn(transport, set.clone()), rest));
    }
    if let [first, Lookup(set), rest @ ..] = list
        && *first == known(Meta::Protocol)
    {
        return Some((Match::ProtocolIn(set.clone()), rest));
    }
    let flags = match list {
        [first, Equals(protocol), rest @ ..]
            if *first == known(Meta::Protocol)
                && transport(protocol) == Some(Transport::Tcp)
                && !is_tcp =>
        {
            rest
        }
        rest if is_tcp => rest,
        _ => return None,
    };
    if let [Payload(TCP_FLAGS), Mask(mask), Equals(value), rest @ ..] = flags
        && (mask.as_slice(), value.as_slice()) == (&CONNECTION_FLAGS, &SYN)
    {
        return Some((Match::Opens, rest));
    }
    None
}

fn transport(protocol: &[u8]) -> Option<Transport> {
    [Transport::Tcp, Transport::Udp]
        .into_iter()
        .find(|transport| protocol == [transport.number()])
}

/// A short text that distinguishes the expression.
fn text(expression: &Expression) -> String {
    match expression {
        Expression::Other(name) => name.clone(),
        known => format!("{known:?}"),
    }
}
