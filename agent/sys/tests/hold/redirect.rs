//! The table in combination with a mesh's redirection of connections, for each program that meshes use.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    process::Command,
};

use tokio::net::TcpListener;
use usher_core::hold::ruleset::Wanted;
use usher_sys::net::nft::delete_table;

use crate::{
    attempt::Attempt,
    held::{LONG, count_held, hold},
    scratch::{ADDRESS, ELSEWHERE, ELSEWHERE_V6, inside, lead_nowhere, nft, run, skipped},
};

const PORT: u16 = 15001;
/// Address of a remote service.
const SERVICE: u16 = 80;
/// A port that the mesh excludes.
const EXCLUDED: u16 = 81;

const NATIVE: &str = "table inet mesh { chain output { type nat hook output priority -100
    meta skuid 1337 return
    tcp dport 81 return
    meta l4proto tcp redirect to :15001
    }
}";

/// Loads the relevant rules of istio-init.
fn capture(program: &str) -> bool {
    for program in [program.to_owned(), program.replacen("ip", "ip6", 1)] {
        if Command::new(&program).arg("--version").output().is_err() {
            skipped(&format!("needs the program {program}"));
            return false;
        }
        let rule = |words: &str| {
            let words = format!("-t nat -A OUTPUT -p tcp {words}");
            run(&program, &words.split(' ').collect::<Vec<_>>());
        };
        rule("-m owner --uid-owner 1337 -j RETURN");
        rule("--dport 81 -j RETURN");
        rule("-j REDIRECT --to-ports 15001");
    }
    true
}

/// Runs the test with `capture`, which adds the mesh's rules and returns whether it could.
fn captured_connections_wait(usher_first: bool, capture: fn() -> bool) {
    inside(|netns| async move {
        lead_nowhere();
        if !usher_first && !capture() {
            return;
        }
        let socket = hold(&netns, PORT, LONG, Wanted::default());
        if usher_first && !capture() {
            return;
        }
        let elsewhere = [ELSEWHERE.to_owned(), format!("[{ELSEWHERE_V6}]")];
        let waiting: Vec<_> = elsewhere
            .iter()
            .map(|host| Attempt::start(host, SERVICE))
            .collect();
        assert_eq!(count_held(&socket), 2);
        // A connection outside the mesh's rules passes.
        Attempt::start(ADDRESS, EXCLUDED).refused().await;
        let addresses: [SocketAddr; 2] = [
            (Ipv4Addr::LOCALHOST, PORT).into(),
            (Ipv6Addr::LOCALHOST, PORT).into(),
        ];
        let [v4, v6] = addresses.map(TcpListener::bind);
        let proxies = [v4.await.unwrap(), v6.await.unwrap()];
        assert!(waiting.iter().all(Attempt::is_waiting));
        assert!(delete_table(&socket).unwrap());
        for (attempt, proxy) in waiting.into_iter().zip(proxies) {
            let app = attempt.connected().await;
            let (_connection, from) = proxy.accept().await.unwrap();
            // The app's peer is the service, and the proxy's peer is the app.
            assert_eq!(app.peer_addr().unwrap().port(), SERVICE);
            assert_eq!(from.port(), app.local_addr().unwrap().port());
        }
    });
}

#[test]
fn of_iptables_on_nftables() {
    for usher_first in [true, false] {
        captured_connections_wait(usher_first, || capture("iptables-nft"));
    }
}

#[test]
fn of_iptables_legacy() {
    for usher_first in [true, false] {
        captured_connections_wait(usher_first, || capture("iptables-legacy"));
    }
}

#[test]
fn of_nftables() {
    let capture = || {
        let is_there = Command::new("nft").arg("--version").output().is_ok();
        if is_there {
            nft(NATIVE);
        } else {
            skipped("needs the program nft");
        }
        is_there
    };
    for usher_first in [true, false] {
        captured_connections_wait(usher_first, capture);
    }
}
