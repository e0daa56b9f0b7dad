//! The kernel's netlink messages, and the packets that it copies.

use std::time::Duration;

use usher_core::{
    hold::{
        ruleset::{self, Ruleset, Wanted},
        syn::Syn,
    },
    node::socket::Protocol,
};
use usher_inspect::conns::{Conns, Input};
use usher_sys::net::{netlink::message, nflog, nft, sockdiag};

/// A datagram of nflog.
pub(super) fn nflog(bytes: &[u8]) -> bool {
    let mut is_syn = false;
    for packet in nflog::packets(bytes) {
        is_syn |= syn(packet.payload);
    }
    is_syn
}

/// A page of the kernel's list of sockets.
pub(super) fn sockdiag(bytes: &[u8]) -> bool {
    let mut input = Input::default();
    for message in message::messages(bytes) {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            input
                .sockets
                .extend(sockdiag::decode(message.body, protocol));
        }
    }
    let conns = Conns {
        sockets: input.judge(),
        ..Conns::default()
    };
    let table = conns.table(true);
    assert_eq!(table.rows.len(), input.sockets.len());
    !input.sockets.is_empty()
}

/// A packet that may open a connection.
pub(super) fn syn(bytes: &[u8]) -> bool {
    let Ok(syn) = Syn::parse(bytes) else {
        return false;
    };
    let prepared = syn.prepared_for_injection(Duration::from_millis(1500));
    let again = Syn::parse(&prepared).expect("what is sent is a SYN");
    assert_eq!(again.connection(), syn.connection());
    assert_eq!(again.sequence(), syn.sequence());
    // Valid checksums stay as they are.
    assert_eq!(again.prepared_for_injection(Duration::ZERO), prepared);
    true
}

/// The responses of nftables to queries of a table.
pub(super) fn nft(bytes: &[u8]) -> bool {
    let found = nft::decode(bytes).ruleset;
    assert!(ruleset::diff(&found, &found).is_empty());
    let wanted = Ruleset::of(&Wanted::default());
    let same = ruleset::diff(&found, &wanted).is_empty();
    assert_eq!(same, ruleset::diff(&wanted, &found).is_empty());
    let _text = found.to_string();
    !same
}

/// The kernel's reply to a request.
pub(super) fn verdict(bytes: &[u8]) -> bool {
    let mut count = 0;
    for message in message::messages(bytes) {
        let _verdict = message.verdict();
        count += 1;
    }
    count > 0
}
