//! Changes of the table as a batch of messages; the kernel applies all or none
//! ([`nfnetlink_rcv_batch`](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nfnetlink.c)).

use std::{io, ops::ControlFlow, time::Duration};

use usher_core::hold::ruleset::{Chain, Element, Entry, Key, Rule, Set, TABLE};

use super::{
    NftError, Operation,
    number::{
        BATCH_BEGIN, BATCH_END, CHAIN_NEW, ELEMENTS_DELETE, ELEMENTS_NEW, FAMILY, NAME,
        NAME_OF_TABLE, RULE_NEW, SET_NEW, SUBSYSTEM, TABLE_DELETE, TABLE_NEW, chain, element,
        rules, set,
    },
    rule,
};
use crate::net::netlink::{
    Socket,
    attribute::{nest, put, put_text, put_u32, put_u64},
    message::{self, Verdict},
};

pub(super) struct Batch {
    bytes: Vec<u8>,
    /// The object of each message; the index is the sequence number.
    objects: Vec<&'static str>,
    /// Offset of the last message.
    last: usize,
}

impl Batch {
    pub(super) fn new() -> Self {
        let mut batch = Self {
            bytes: Vec::with_capacity(4096),
            objects: Vec::new(),
            last: 0,
        };
        batch.frame(BATCH_BEGIN);
        batch
    }

    pub(super) fn add_table(&mut self) {
        self.push("table", TABLE_NEW, message::CREATE, |_| {});
    }

    pub(super) fn delete_table(&mut self) {
        self.push("table", TABLE_DELETE, 0, |_| {});
    }

    /// Adds a set; `id` identifies it within the batch.
    pub(super) fn add_set(&mut self, set: &Set, id: usize) {
        let (kind, length) = match set.key {
            Key::Protocol => (set::PROTOCOL, 1),
            Key::Service => (set::SERVICE, 2),
            Key::Other(kind) => (kind, 2),
        };
        self.push("set", SET_NEW, message::CREATE, |out| {
            put_text(out, NAME, &set.name);
            put_u32(out, set::FLAGS, set::HAS_TIMEOUTS);
            put_u32(out, set::KEY_TYPE, kind);
            put_u32(out, set::KEY_LENGTH, length);
            put_u32(out, set::ID, u32::try_from(id).unwrap_or(u32::MAX));
        });
    }

    pub(super) fn add_chain(&mut self, chain: &Chain) {
        self.push("chain", CHAIN_NEW, message::CREATE, |out| {
            put_text(out, chain::NAME, &chain.name);
            // For a chain in another table only the name is known.
            if let Entry::Output { priority } = chain.entry {
                nest(out, chain::HOOK, |hook| {
                    put_u32(hook, chain::HOOK_NUMBER, chain::OUTPUT);
                    put(hook, chain::PRIORITY, &priority.to_be_bytes());
                });
                put_u32(out, chain::POLICY, chain::ACCEPT);
                put_text(out, chain::TYPE, chain::FILTER);
            }
        });
    }

    pub(super) fn add_rule(&mut self, chain: &str, rule: &Rule) {
        let flags = message::CREATE | message::APPEND;
        self.push("rule", RULE_NEW, flags, |out| {
            put_text(out, rules::CHAIN, chain);
            nest(out, rules::EXPRESSIONS, |list| {
                for expression in rule::expressions(rule) {
                    expression.put(list);
                }
            });
        });
    }

    pub(super) fn add_elements(&mut self, set: &str, key: Key, elements: &[Element]) {
        for element in elements {
            let bytes = element.value.to_be_bytes();
            let bytes = if key == Key::Protocol {
                &bytes[1..]
            } else {
                &bytes
            };
            self.element(ELEMENTS_NEW, set, bytes, element.timeout);
        }
    }

    pub(super) fn add_element(&mut self, set: &str, key: &[u8], timeout: Duration) {
        self.element(ELEMENTS_NEW, set, key, Some(timeout));
    }

    pub(super) fn delete_element(&mut self, set: &str, key: &[u8]) {
        self.element(ELEMENTS_DELETE, set, key, None);
    }

    fn element(&mut self, kind: u16, set: &str, key: &[u8], timeout: Option<Duration>) {
        self.push("element", kind, message::CREATE, |out| {
            put_text(out, NAME, set);
            nest(out, element::ALL, |list| {
                nest(list, element::ONE, |one| {
                    nest(one, element::KEY, |data| put(data, element::VALUE, key));
                    if let Some(timeout) = timeout {
                        put_u64(one, element::TIMEOUT, milliseconds(timeout));
                    }
                });
            });
        });
    }

    fn push(
        &mut self,
        object: &'static str,
        kind: u16,
        flags: u16,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        self.last = self.bytes.len();
        request(&mut self.bytes, kind, flags, self.objects.len(), fill);
        self.objects.push(object);
    }

    fn frame(&mut self, kind: u16) {
        message::put(
            &mut self.bytes,
            kind,
            0,
            number(self.objects.len()),
            |body| {
                body.extend_from_slice(&[0, 0]);
                body.extend_from_slice(&SUBSYSTEM.to_be_bytes());
            },
        );
        self.objects.push("batch");
    }

    /// Returns the bytes to send. Only the last message requests an acknowledgement: the kernel reports errors
    /// unrequested, and before it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        message::add_flags(&mut self.bytes[self.last..], message::ACK);
        self.frame(BATCH_END);
        self.bytes
    }

    pub(super) fn send(self, socket: &Socket, operation: Operation) -> Result<(), NftError> {
        let objects = self.objects.clone();
        let bytes = self.finish();
        let fail = |sequence: u32, source: io::Error, detail| NftError {
            operation,
            object: usize::try_from(sequence)
                .ok()
                .and_then(|index| objects.get(index).copied())
                .unwrap_or("batch"),
            source,
            detail,
        };
        discard_unread(socket).map_err(|source| fail(0, source, None))?;
        let mut first = Ok(());
        let last = number(objects.len() - 1);
        socket
            .request(&bytes, |message| {
                match message.verdict() {
                    Some(Verdict::Rejected { errno, detail }) if first.is_ok() => {
                        first = Err(fail(message.sequence, errno.into(), detail));
                    }
                    Some(_) => {}
                    None => return ControlFlow::Continue(()),
                }
                // A verdict on the batch itself also comes last.
                if message.sequence == last || message.sequence == 0 {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })
            .map_err(|source| fail(0, source, None))?;
        first
    }
}

/// Discards unread messages of an interrupted request.
pub(super) fn discard_unread(socket: &Socket) -> io::Result<()> {
    let mut nowhere = [0; 256];
    loop {
        match socket.receive(&mut nowhere) {
            Ok(None) => return Ok(()),
            Ok(Some(_)) => {}
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Appends a message about the table.
pub(super) fn request(
    bytes: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    sequence: usize,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    message::put(bytes, kind, flags, number(sequence), |body| {
        body.extend_from_slice(&[FAMILY, 0, 0, 0]);
        put_text(body, NAME_OF_TABLE, TABLE);
        fill(body);
    });
}

fn number(sequence: usize) -> u32 {
    u32::try_from(sequence).unwrap_or(u32::MAX)
}

/// At least 1, because the kernel interprets 0 as "no timeout".
fn milliseconds(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}
