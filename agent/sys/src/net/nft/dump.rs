//! Reads the table from the kernel.

use std::ops::ControlFlow;

use nix::errno::Errno;
use usher_core::hold::ruleset::GATE;

use super::{
    Found, NftError, Operation,
    batch::{discard_unread, request},
    number::{CHAIN_GET, ELEMENTS_GET, NAME, RULE_GET, SET_GET, TABLE_GET, rules as rules_of},
};
use crate::net::netlink::{
    Socket,
    attribute::put_text,
    message::{self, Verdict},
};

/// How often a table that keeps changing is read.
const ATTEMPTS: usize = 5;
/// Most objects that are read of a table. usher makes about 40, and one for each port; a process that may change rules
/// in a pod can add as many as the kernel has memory for.
const THINGS: usize = 4096;

/// Reads the table, again if it changed during the dump.
pub(super) fn table(socket: &Socket) -> Result<Found, NftError> {
    for _ in 1..ATTEMPTS {
        match whole(socket) {
            Err(error) if error.source.raw_os_error() == Some(Errno::EINTR as i32) => {}
            found => return found,
        }
    }
    whole(socket)
}

fn whole(socket: &Socket) -> Result<Found, NftError> {
    let mut found = Found::default();
    // Checks that the table exists: the other dumps are empty without it.
    found.query(socket, "table", TABLE_GET, 0, |_| {})?;
    found.query(socket, "chain", CHAIN_GET, message::DUMP, |_| {})?;
    found.query(socket, "rule", RULE_GET, message::DUMP, |_| {})?;
    found.query(socket, "set", SET_GET, message::DUMP, |_| {})?;
    let names: Vec<String> = found
        .ruleset
        .sets
        .iter()
        .map(|set| set.name.clone())
        .collect();
    for name in names {
        found.query(socket, "element", ELEMENTS_GET, message::DUMP, |out| {
            put_text(out, NAME, &name);
        })?;
    }
    found.sort();
    Ok(found)
}

/// Requests the table without its content.
pub(super) fn head(socket: &Socket) -> Result<(), NftError> {
    Found::default().query(socket, "table", TABLE_GET, 0, |_| {})
}

pub(super) fn rules(socket: &Socket) -> Result<Found, NftError> {
    let mut found = Found::default();
    found.query(socket, "rule", RULE_GET, message::DUMP, |out| {
        put_text(out, rules_of::CHAIN, GATE);
    })?;
    Ok(found)
}

impl Found {
    fn query(
        &mut self,
        socket: &Socket,
        object: &'static str,
        kind: u16,
        flags: u16,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), NftError> {
        let mut bytes = Vec::new();
        let flags = if flags == 0 { message::ACK } else { flags };
        request(&mut bytes, kind, flags, 1, fill);
        let fail = |source, detail| NftError {
            operation: Operation::Dump,
            object,
            detail,
            source,
        };
        discard_unread(socket).map_err(|source| fail(source, None))?;
        let mut torn = false;
        let verdict = socket.request(&bytes, |message| match message.verdict() {
            Some(verdict) => ControlFlow::Break(Some(verdict)),
            None => {
                torn |= message.flags & message::INTERRUPTED != 0;
                self.take(message);
                if self.things > THINGS {
                    return ControlFlow::Break(None);
                }
                ControlFlow::Continue(())
            }
        });
        match verdict.and_then(|verdict| verdict.ok_or_else(|| Errno::E2BIG.into())) {
            Ok(Verdict::Done) if torn => Err(fail(Errno::EINTR.into(), None)),
            Ok(Verdict::Done) => Ok(()),
            Ok(Verdict::Rejected { errno, detail }) => Err(fail(errno.into(), detail)),
            Err(source) => Err(fail(source, None)),
        }
    }
}
