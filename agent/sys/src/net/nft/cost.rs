//! The cost of a namespace's rules for a packet on loopback: an upper bound, read before a packet is sent there.
//!
//! A pod's process with `CAP_NET_ADMIN` can load rules that take the kernel minutes for one packet. That time is spent
//! in the system call that sends the packet, and no signal ends the call.
//!
//! The dumps do not wait for changes of rules, because they only take the RCU read lock. After an error or too large a
//! ruleset, close the socket: the rest of the dump remains in it, and the next request would read it to its end. Rules
//! of `iptables-legacy` are not included: see [`iptables`](crate::net::iptables).

mod decode;

use std::{
    io, thread,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use self::decode::{Collector, Overflow};
use super::{
    NftError, Operation,
    number::{
        CHAIN_GET, ELEMENTS_GET, GENERATION, GENERATION_GET, GENERATION_NEW, HEADER, NAME,
        NAME_OF_TABLE, RULE_GET,
    },
    query::Query,
};
use crate::{
    net::netlink::{
        Socket,
        attribute::{find, put_text},
        message::{self, Message},
    },
    process::thread::Thread,
};

/// Attempts to read rules that keep changing.
const ATTEMPTS: usize = 10;
/// The pause before the next attempt, which doubles up to the second value. usher's own changes of a pod's table come one
/// after the other as well, for example when a hold ends with the pod; each ends within 1 ms.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);
/// The time that a thread may compute in all attempts, and how long it may take in all. A thread that waits for a
/// processor, on a busy node, is no evidence against the rules. Istio's rules take 0.2 ms, 20,000 rules 70 ms, the
/// generation 6 µs (test build).
const LIMIT: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(10);

/// The cost of the rules, and their generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// A number that every change of the namespace's rules increments. 0 for a kernel without nftables.
    pub generation: u32,
    /// Upper bound of the expressions that one packet on loopback evaluates at all hooks; about 30 ns each. `u64::MAX`
    /// above 20,000 rules, 4,096 chains or verdict maps, 20,000 jumps or elements of verdict maps, or 1 MiB of names, because
    /// such a ruleset is not read, while the rules keep changing, and if the kernel does not list them all.
    pub evaluations: u64,
}

/// When a read began, and the processor time of its thread then.
#[derive(Debug, Clone, Copy)]
struct Start {
    at: Instant,
    thread: Thread,
    cpu_time: Duration,
}

/// Reads the rules of the socket's namespace.
///
/// # Errors
/// [`NftError`]; with [`io::ErrorKind::TimedOut`] after two seconds of processor time or 10 s, and with `EBUSY` for a large
/// ruleset while others are read. Then the socket has an unfinished dump: close it.
pub fn cost(socket: &Socket) -> Result<Cost, NftError> {
    let start = Start::now();
    let mut before = 0;
    let mut pause = PAUSE;
    for _attempt in 0..ATTEMPTS {
        before = generation(socket)?;
        let cost = |evaluations| Cost {
            generation: before,
            evaluations,
        };
        match read(socket, start) {
            // Does not read the generation again, because that request would first read the rest of the dump.
            Ok(None) => return Ok(cost(u64::MAX)),
            Ok(Some(Some(evaluations))) if generation(socket)? == before => {
                return Ok(cost(evaluations));
            }
            Ok(Some(_)) => {}
            // A missing map was deleted during the dump.
            Err(error) if error.is(Errno::EINTR) || error.is_not_there() => {}
            Err(error) => return Err(error),
        }
        thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
    Ok(Cost {
        generation: before,
        evaluations: u64::MAX,
    })
}

/// The generation of the rules. The same number means the same rules. 0 for a kernel without nftables.
pub fn generation(socket: &Socket) -> Result<u32, NftError> {
    let mut generation = 0;
    let query = Query {
        flags: message::ACK,
        ..measure("generation", GENERATION_GET)
    };
    let queried = query.send(
        socket,
        |_| {},
        |message| {
            let body = message.body.get(HEADER..);
            if let Some(body) = body.filter(|_| message.kind == GENERATION_NEW)
                && let Some(number) = find(body, GENERATION).and_then(|number| number.u32())
            {
                generation = number;
            }
            Ok(())
        },
    );
    match queried {
        Err(error) if error.has_no_nftables() => Ok(0),
        queried => queried.map(|()| generation),
    }
}

/// The number of evaluations; None if there are too many rules, and inside of it None if the kernel did not list all.
fn read(socket: &Socket, start: Start) -> Result<Option<Option<u64>>, NftError> {
    let mut found = Collector::default();
    let in_time = |taken: Result<(), Overflow>| match taken {
        Ok(()) if start.is_exceeded() => Err(io::ErrorKind::TimedOut.into()),
        Ok(()) => Ok(()),
        Err(Overflow::TooLarge) => Err(Errno::E2BIG.into()),
        Err(Overflow::Busy) => Err(Errno::EBUSY.into()),
    };
    for (kind, object) in [(CHAIN_GET, "chain"), (RULE_GET, "rule")] {
        let take = |message: Message<'_>| in_time(found.take(message));
        match measure(object, kind).send(socket, |_| {}, take) {
            Err(error) if error.has_no_nftables() => return Ok(Some(Some(0))),
            Err(error) if error.is(Errno::E2BIG) => return Ok(None),
            sent => sent?,
        }
    }
    for (index, map) in found.map_keys().into_iter().enumerate() {
        let fill = |out: &mut Vec<u8>| {
            put_text(out, NAME_OF_TABLE, &map.table);
            put_text(out, NAME, &map.name);
        };
        let query = Query {
            family: map.family,
            ..measure("element", ELEMENTS_GET)
        };
        let take = |message: Message<'_>| in_time(found.take_elements(index, &map, message));
        match query.send(socket, fill, take) {
            Err(error) if error.is(Errno::E2BIG) => return Ok(None),
            sent => sent?,
        }
    }
    let is_whole = !found.is_cut();
    Ok(Some(is_whole.then(|| found.filter().evaluations())))
}

impl Start {
    fn now() -> Self {
        let thread = Thread::current();
        Self {
            at: Instant::now(),
            thread,
            cpu_time: thread.cpu_time().unwrap_or_default(),
        }
    }

    fn is_exceeded(self) -> bool {
        is_exceeded(self.at.elapsed(), || {
            let cpu_time = self.thread.cpu_time().unwrap_or_default();
            cpu_time.saturating_sub(self.cpu_time)
        })
    }
}

fn is_exceeded(elapsed: Duration, cpu_time: impl FnOnce() -> Duration) -> bool {
    elapsed > LONGEST || (elapsed > LIMIT && cpu_time() > LIMIT)
}

fn measure(object: &'static str, kind: u16) -> Query {
    Query::dump(Operation::Measure, object, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_read_that_computes_exceeds_the_limit() {
        let cases = [
            ("as usual", 1, 1, false),
            ("has had no processor for a while", 9000, 1, false),
            ("has had half of a processor", 3999, 1999, false),
            ("computes", 2001, 2001, true),
            ("computes on a busy node", 9000, 2001, true),
            ("waits for anything else", 10_001, 1, true),
        ];
        for (name, elapsed, cpu_time, expected) in cases {
            let [elapsed, cpu_time] = [elapsed, cpu_time].map(Duration::from_millis);
            assert_eq!(is_exceeded(elapsed, || cpu_time), expected, "{name}");
        }
    }
}
