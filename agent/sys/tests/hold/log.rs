//! Copies of packets.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use usher_core::hold::syn::Syn;
use usher_sys::net::nflog::{Error, GROUP, Log, Packet};

use crate::scratch::{inside, nft, soon};

const RULES: &str = "table inet test {
    chain out {
        type filter hook output priority -300
        tcp flags & (fin|syn|rst|ack) == syn log prefix \"new\" group 9643 queue-threshold 1
    }
}";

#[test]
fn copies_are_the_connections_that_were_made() {
    inside(|netns| async move {
        let mut log = Log::bind(&netns, GROUP).unwrap();
        nft(RULES);
        let server = TcpListener::bind("[::]:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        for address in ["127.0.0.1", "[::1]"] {
            let address: SocketAddr = format!("{address}:{port}").parse().unwrap();
            let client = TcpStream::connect(address).await.unwrap();
            let mut copies = Vec::new();
            while copies.is_empty() {
                let keep = |packet: Packet<'_>| {
                    assert_eq!((packet.hook, packet.prefix), (Some(3), Some("new")));
                    copies.push(Syn::parse(packet.payload).unwrap());
                };
                log.receive(keep).await.unwrap();
            }
            assert_eq!(copies.len(), 1);
            let connection = copies[0].connection();
            assert_eq!(connection.source, client.local_addr().unwrap());
            assert_eq!(connection.destination, address);
        }
        log.drain(|packet| panic!("{packet:?}")).unwrap();
    });
}

#[test]
fn a_group_has_one_reader() {
    inside(|netns| async move {
        let log = Log::bind(&netns, GROUP).unwrap();
        let error = Log::bind(&netns, GROUP).unwrap_err();
        assert!(matches!(error, Error::Bind { .. }), "{error:?}");
        let other = Log::bind(&netns, GROUP + 1).unwrap();
        drop((log, other));
        soon(|| Log::bind(&netns, GROUP).is_ok()).await;
    });
}

#[test]
fn copies_that_do_not_fit_are_no_error() {
    inside(|netns| async move {
        let mut log = Log::bind(&netns, GROUP).unwrap();
        nft(RULES);
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        for _ in 0..3000 {
            let (client, accepted) = tokio::join!(TcpStream::connect(address), server.accept());
            drop((client.unwrap(), accepted.unwrap()));
        }
        let mut count = 0;
        for _ in 0..3 {
            log.drain(|_| count += 1).unwrap();
        }
        assert!((1000..3000).contains(&count), "{count} copies fit");
        assert_eq!(log.dropped(), 3000 - count);
        // Later copies fit in the buffer again.
        let _client = TcpStream::connect(address).await.unwrap();
        log.drain(|_| count = 1).unwrap();
        assert_eq!(count, 1);
    });
}
