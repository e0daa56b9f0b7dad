//! What is fuzzed, each under the name of its folder in `corpus`. The fuzz targets and an ordinary test call the same
//! functions, which panic where a decoder contradicts itself.

#[path = "decoders/holder.rs"]
mod holder;

use std::{path::Path, str, sync::LazyLock, time::Duration};

use usher_core::{
    bundle,
    cni::{self, Conf, Reply, Request},
    config::Config,
    conflist::{self, Edit, Entry, Kind, State},
    id::PodUid,
    mountinfo, podlist,
    recipe::Reads,
    ruleset::{self, Ruleset, Wanted},
    start::{News, Order},
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
        "bundle" => bundle(bytes),
        "mountinfo" => mountinfo(bytes),
        "podlist" => podlist(bytes),
        "start_message" => start_message(bytes),
        "holder" => holder::execs_and_orders(bytes),
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

/// What the agent and its holder say to each other.
fn start_message(bytes: &[u8]) {
    if let Ok(order) = Order::decode(bytes) {
        assert_eq!(Order::decode(&order.encode()).expect("it was read"), order);
    }
    if let Ok(news) = News::decode(bytes) {
        assert_eq!(News::decode(&news.encode()).expect("it was read"), news);
    }
}

/// A bundle's configuration, as a container runtime writes it.
fn bundle(bytes: &[u8]) {
    let Ok(bundle) = bundle::parse(bytes) else {
        return;
    };
    assert!(PodUid::parse(bundle.pod.as_str()).is_ok());
    if let Some(name) = bundle.container {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!(name.len() < 64 && name.bytes().all(fits), "{name:?}");
    }
}

/// The mounts of a container's process, and of the node.
fn mountinfo(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let uid = PodUid::parse("7987997a-2c12-4655-9314-796855bf397c").expect("a UID");
    if let Some(name) = mountinfo::container_name(text, &uid) {
        assert!(!name.is_empty() && !name.contains('/'), "{name:?}");
    }
    let found = mountinfo::executable(text);
    assert!(found.len() <= 256);
    // In order, and each point once.
    let bytes = |point: &Path| point.as_os_str().as_encoded_bytes().to_vec();
    assert!(found.is_sorted_by(|(_, one), (_, next)| bytes(one) < bytes(next)));
    for (_id, point) in found {
        assert!(point.is_absolute() && point != Path::new("/"));
        assert!(mountinfo::propagates(text, &point).is_some());
    }
}

/// The kubelet's answer.
fn podlist(bytes: &[u8]) {
    static READS: LazyLock<Reads> = LazyLock::new(|| Config::default().reads());
    let Ok(list) = podlist::parse(bytes, &READS) else {
        return;
    };
    for container in list.pods.iter().flat_map(|pod| &pod.containers) {
        assert!(container.probes.len() <= 2);
        for probe in &container.probes {
            assert!(probe.period >= Duration::from_secs(1) && probe.failures >= 1);
        }
    }
}
