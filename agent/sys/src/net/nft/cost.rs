//! What the rules of a network namespace cost a packet on loopback: an upper bound, read before anything is sent there.
//!
//! A process of a pod that has `CAP_NET_ADMIN` can load rules that take the kernel minutes for one packet, within the
//! system call that sends it, and no signal ends that call.
//!
//! The dumps do not wait for changes of rules (they only take the RCU read lock). A dump that ends early leaves the rest
//! in the socket, and the next request reads it to its end: after an error or a ruleset that is too large, close the
//! socket. Rules of `iptables-legacy` are not among these: see [`iptables`](crate::net::iptables).

mod decode;

use std::{
    io,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use self::decode::{Collector, Overflow};
use super::{
    NftError, Operation,
    batch::discard_unread,
    number::{
        CHAIN_GET, ELEMENTS_GET, GENERATION, GENERATION_GET, GENERATION_NEW, HEADER, NAME,
        NAME_OF_TABLE, RULE_GET,
    },
};
use crate::net::netlink::{
    Socket,
    attribute::{find, put_text},
    message::{self, Message, Verdict},
};

/// How often rules that keep changing are read.
const ATTEMPTS: usize = 3;
/// For all attempts together. Istio's rules take 0.2 ms, 20,000 rules 70 ms, the generation 6 µs (test build).
const DEADLINE: Duration = Duration::from_secs(2);
const ANY_FAMILY: u8 = 0;

/// What the rules cost, and of which generation they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The number that every change of rules in the namespace increments. 0 for a kernel without nftables.
    pub generation: u32,
    /// Expressions that one packet on loopback evaluates at all of its hooks, at most; about 30 ns each. `u64::MAX` for
    /// a ruleset of more than 20,000 rules, 4,096 chains or 20,000 elements of verdict maps, which is not read.
    pub evaluations: u64,
}

/// Reads the rules of the socket's namespace.
///
/// # Errors
/// [`NftError`]; with [`io::ErrorKind::TimedOut`] after two seconds, and `EINTR` for rules that keep changing.
pub fn cost(socket: &Socket) -> Result<Cost, NftError> {
    let deadline = Instant::now() + DEADLINE;
    for _ in 0..ATTEMPTS {
        let before = generation(socket)?;
        let cost = |evaluations| Cost {
            generation: before,
            evaluations,
        };
        match read(socket, deadline) {
            // Another request would read the rest.
            Ok(None) => return Ok(cost(u64::MAX)),
            Ok(Some(evaluations)) if generation(socket)? == before => return Ok(cost(evaluations)),
            Ok(Some(_)) => {}
            // A map that does not exist any more was deleted meanwhile.
            Err(error) if is_interrupted(&error) || error.is_not_there() => {}
            Err(error) => return Err(error),
        }
    }
    Err(failed("rule", Errno::EINTR.into(), None))
}

fn is_interrupted(error: &NftError) -> bool {
    error.source.raw_os_error() == Some(Errno::EINTR as i32)
}

/// The error of nfnetlink for an absent subsystem.
fn has_no_nftables(error: &NftError) -> bool {
    error.source.raw_os_error() == Some(Errno::EINVAL as i32)
}

/// The generation of the rules: the same number means that no rule has changed since. 0 for a kernel without nftables.
pub fn generation(socket: &Socket) -> Result<u32, NftError> {
    let mut generation = 0;
    let deadline = Instant::now() + DEADLINE;
    let queried = query(
        socket,
        "generation",
        (GENERATION_GET, message::ACK, ANY_FAMILY),
        deadline,
        |_| {},
        |message| {
            if let Some(body) = message
                .body
                .get(HEADER..)
                .filter(|_| message.kind == GENERATION_NEW)
                && let Some(number) = find(body, GENERATION).and_then(|number| number.u32())
            {
                generation = number;
            }
            Ok(())
        },
    );
    match queried {
        Err(error) if has_no_nftables(&error) => Ok(0),
        queried => queried.map(|_all| generation),
    }
}

/// The number of evaluations; None where there are too many rules.
fn read(socket: &Socket, deadline: Instant) -> Result<Option<u64>, NftError> {
    let mut found = Collector::default();
    for (kind, object) in [(CHAIN_GET, "chain"), (RULE_GET, "rule")] {
        let request = (kind, message::DUMP, ANY_FAMILY);
        let take = |message: Message<'_>| found.take(message);
        match query(socket, object, request, deadline, |_| {}, take) {
            Err(error) if has_no_nftables(&error) => return Ok(Some(0)),
            Err(error) => return Err(error),
            Ok(Extent::TooLarge) => return Ok(None),
            Ok(Extent::Whole) => {}
        }
    }
    for (index, map) in found.map_keys().into_iter().enumerate() {
        let fill = |out: &mut Vec<u8>| {
            put_text(out, NAME_OF_TABLE, &map.table);
            put_text(out, NAME, &map.name);
        };
        let request = (ELEMENTS_GET, message::DUMP, map.family);
        let take = |message: Message<'_>| found.take_elements(index, &map, message);
        match query(socket, "element", request, deadline, fill, take)? {
            Extent::TooLarge => return Ok(None),
            Extent::Whole => {}
        }
    }
    Ok(Some(found.filter().evaluations()))
}

/// How much of a reply was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    TooLarge,
}

/// Sends a request of this type, with these flags and family, and passes the objects of the reply to `take`, until there
/// are too many.
fn query(
    socket: &Socket,
    object: &'static str,
    (kind, flags, family): (u16, u16, u8),
    deadline: Instant,
    fill: impl FnOnce(&mut Vec<u8>),
    mut take: impl FnMut(Message<'_>) -> Result<(), Overflow>,
) -> Result<Extent, NftError> {
    let mut bytes = Vec::new();
    message::put(&mut bytes, kind, flags, 1, |body| {
        body.extend_from_slice(&[family, 0, 0, 0]);
        fill(body);
    });
    let fail = |source, detail| failed(object, source, detail);
    discard_unread(socket).map_err(|source| fail(source, None))?;
    let mut torn = false;
    let end = socket.request(&bytes, |message| {
        torn |= message.flags & message::INTERRUPTED != 0;
        if let Some(verdict) = message.verdict() {
            ControlFlow::Break(Ok(Some(verdict)))
        } else if Instant::now() > deadline {
            ControlFlow::Break(Err(io::ErrorKind::TimedOut.into()))
        } else if take(message) == Err(Overflow) {
            ControlFlow::Break(Ok(None))
        } else {
            ControlFlow::Continue(())
        }
    });
    match end.flatten().map_err(|source| fail(source, None))? {
        None => Ok(Extent::TooLarge),
        Some(Verdict::Done) if torn => Err(fail(Errno::EINTR.into(), None)),
        Some(Verdict::Done) => Ok(Extent::Whole),
        Some(Verdict::Rejected { errno, detail }) => Err(fail(errno.into(), detail)),
    }
}

fn failed(object: &'static str, source: io::Error, detail: Option<String>) -> NftError {
    NftError {
        operation: Operation::Measure,
        object,
        detail,
        source,
    }
}
