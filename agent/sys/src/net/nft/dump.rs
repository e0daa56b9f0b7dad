//! Reads the table from the kernel.

use nix::errno::Errno;
use usher_core::hold::ruleset::TABLE;

use super::{
    Found, NftError, Operation,
    number::{CHAIN_GET, ELEMENTS_GET, FAMILY, NAME, NAME_OF_TABLE, RULE_GET, SET_GET, TABLE_GET},
    query::Query,
};
use crate::net::netlink::{Socket, attribute::put_text, message};

/// Attempts to read a table that keeps changing.
const ATTEMPTS: usize = 5;
/// Maximum number of objects that are read. usher makes about 40, and one for each port. A process that may change
/// rules in a pod can add as many as the kernel has memory for.
const THINGS: usize = 4096;

/// Reads the table, and retries if it changed during the dump.
pub(super) fn table(socket: &Socket) -> Result<Found, NftError> {
    for _ in 1..ATTEMPTS {
        match whole(socket) {
            Err(error) if error.is(Errno::EINTR) => {}
            found => return found,
        }
    }
    whole(socket)
}

fn whole(socket: &Socket) -> Result<Found, NftError> {
    let mut found = Found::default();
    // Checks that the table exists, because the other dumps are empty without it.
    found.query(socket, "table", TABLE_GET, message::ACK, |_| {})?;
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
    Found::default().query(socket, "table", TABLE_GET, message::ACK, |_| {})
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
        let query = Query {
            flags,
            family: FAMILY,
            ..Query::dump(Operation::Dump, object, kind)
        };
        let fill = |body: &mut Vec<u8>| {
            put_text(body, NAME_OF_TABLE, TABLE);
            fill(body);
        };
        query.send(socket, fill, |message| {
            self.take(message);
            match self.things > THINGS {
                true => Err(Errno::E2BIG.into()),
                false => Ok(()),
            }
        })
    }
}
