//! What is fuzzed, each under the name of its folder in `corpus`. The fuzz targets and an ordinary test call the same
//! functions, which panic where a decoder contradicts itself.

use std::{str, time::Duration};

use usher_core::{
    cni::{self, Conf, Reply, Request},
    conflist::{self, Edit, Entry, Kind, State},
    ruleset::{self, Ruleset, Wanted},
    syn::Syn,
};
use usher_sys::{netlink::message, nflog, nft};

/// Gives bytes to the decoder of this name.
///
/// # Panics
/// Where there is none, and where it contradicts itself.
pub(crate) fn decode(name: &str, bytes: &[u8]) {
    match name {
        "nflog" => nflog(bytes),
        "syn" => syn(bytes),
        "nft" => nft(bytes),
        "verdict" => verdict(bytes),
        "conflist" => conflist(bytes),
        "cni_conf" => cni_conf(bytes),
        "cni_message" => cni_message(bytes),
        _ => panic!("no decoder is called {name}"),
    }
}

/// A datagram of nflog.
fn nflog(bytes: &[u8]) {
    for packet in nflog::packets(bytes) {
        syn(packet.payload);
    }
}

/// A packet that may open a connection.
fn syn(bytes: &[u8]) {
    let Ok(syn) = Syn::parse(bytes) else {
        return;
    };
    let prepared = syn.prepared_for_injection(Duration::from_millis(1500));
    let again = Syn::parse(&prepared).expect("what is sent is a SYN");
    assert_eq!(again.connection(), syn.connection());
    assert_eq!(again.sequence(), syn.sequence());
    // Right checksums stay as they are.
    assert_eq!(again.prepared_for_injection(Duration::ZERO), prepared);
}

/// Answers of nftables to the questions for a table.
fn nft(bytes: &[u8]) {
    let found = nft::decode(bytes).ruleset;
    assert!(ruleset::diff(&found, &found).is_empty());
    let wanted = Ruleset::of(&Wanted::default());
    let same = ruleset::diff(&found, &wanted).is_empty();
    assert_eq!(same, ruleset::diff(&wanted, &found).is_empty());
    let _text = found.to_string();
}

/// What the kernel thinks of a request.
fn verdict(bytes: &[u8]) {
    for message in message::messages(bytes) {
        let _verdict = message.verdict();
    }
}

/// A CNI configuration that usher's entry is put into and taken out of.
fn conflist(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let entry = Entry::parse("{\"type\":\"usher-cni\"}").expect("an entry");
    for kind in [Kind::Conf, Kind::ConfList] {
        let _state = conflist::check(text, kind, &entry);
        let _choice = conflist::choose(&[("10-a.conflist", text)], entry.plugin());
        let _removed = conflist::remove(text, entry.plugin());
        if let Ok(Edit::Text(edited)) = conflist::insert(text, kind, &entry) {
            let state = conflist::check(&edited, Kind::ConfList, &entry);
            assert!(matches!(state, State::Installed), "{state:?} in {edited}");
            let again = conflist::insert(&edited, Kind::ConfList, &entry);
            assert!(matches!(again, Ok(Edit::Unchanged)), "{again:?}");
            let removed = conflist::remove(&edited, entry.plugin());
            assert!(removed.is_ok(), "{removed:?} of {edited}");
        }
    }
}

/// What a runtime gives the CNI plugin: its configuration, and its arguments.
fn cni_conf(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(conf) = Conf::read(text)
        && let Some(previous) = conf.previous
    {
        assert!(text.contains(previous));
    }
    let _pod = cni::pod(text);
}

/// What the plugin and the agent say to each other.
fn cni_message(bytes: &[u8]) {
    if let Ok(request) = Request::decode(bytes) {
        let encoded = request.encode().expect("what was read can be written");
        assert_eq!(Request::decode(&encoded).expect("and read"), request);
    }
    if let Ok(reply) = Reply::decode(bytes) {
        let encoded = reply.encode().expect("what was read can be written");
        assert_eq!(Reply::decode(&encoded).expect("and read"), reply);
    }
}
