//! A DNS server in a pod's network namespace, with replies written as bytes.

use std::{
    io::{Read, Write},
    net::{TcpListener, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use usher_tests::synthetic::Pod;

use crate::network::inside;

pub(crate) const ADDRESS: &str = "10.1.2.3";
const V4: [u8; 4] = [10, 1, 2, 3];
const V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];

const HEADER: usize = 12;
const A: u8 = 1;
const AAAA: u8 = 28;
const CNAME: u8 = 5;
/// A pointer to the name of the question.
const QUESTION: [u8; 2] = [0xc0, 12];

/// Serves as long as the test runs.
pub(crate) struct Server {
    is_silent: Arc<AtomicBool>,
}

impl Server {
    /// Starts it at 127.0.0.1:53.
    pub(crate) fn start(pod: &Pod) -> Self {
        let datagrams = inside(pod, || UdpSocket::bind("127.0.0.1:53").unwrap());
        let streams = inside(pod, || TcpListener::bind("127.0.0.1:53").unwrap());
        let is_silent = Arc::new(AtomicBool::new(false));
        let silence = Arc::clone(&is_silent);
        thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, client)) = datagrams.recv_from(&mut query) {
                if silence.load(Ordering::Acquire) {
                    continue;
                }
                // A late reply to another query comes first.
                let mut other = reply(&query[..length], false);
                other[0] ^= 0xff;
                datagrams.send_to(&other, client).unwrap();
                datagrams
                    .send_to(&reply(&query[..length], false), client)
                    .unwrap();
            }
        });
        thread::spawn(move || {
            for mut stream in streams.incoming().flatten() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut query).unwrap();
                let reply = reply(&query, true);
                let length = u16::try_from(reply.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length[..], &reply].concat()).unwrap();
            }
        });
        Self { is_silent }
    }

    /// Does not reply any more.
    pub(crate) fn silence(&self) {
        self.is_silent.store(true, Ordering::Release);
    }
}

fn reply(query: &[u8], is_whole: bool) -> Vec<u8> {
    let (name, record) = question(query);
    let is_v4 = record == A;
    let address = |owner: &[u8]| match record {
        A => record_of(owner, A, &V4),
        _ => record_of(owner, AAAA, &V6),
    };
    let (flags, answers): ([u8; 2], Vec<Vec<u8>>) = match name.as_str() {
        "db.svc.cluster.local" | "localhost.test" => ([0x81, 0x80], vec![address(&QUESTION)]),
        "alias.example" if is_v4 => {
            let target = [b"\x06target".as_slice(), &QUESTION].concat();
            let alias = record_of(&QUESTION, CNAME, &target);
            ([0x81, 0x80], vec![alias, address(&target)])
        }
        "large.example" if !is_whole => ([0x83, 0x80], Vec::new()),
        "large.example" if is_v4 => ([0x81, 0x80], vec![address(&QUESTION)]),
        "here.example" if is_v4 => ([0x81, 0x80], vec![record_of(&QUESTION, A, &[127, 0, 0, 1])]),
        "alias.example" | "large.example" | "here.example" => ([0x81, 0x80], Vec::new()),
        "broken.example" => ([0x81, 0x82], Vec::new()),
        _ => ([0x81, 0x83], Vec::new()),
    };
    let count = u8::try_from(answers.len()).unwrap();
    let header = [
        query[0], query[1], flags[0], flags[1], 0, 1, 0, count, 0, 0, 0, 0,
    ];
    [&header[..], &query[HEADER..], &answers.concat()].concat()
}

fn record_of(owner: &[u8], kind: u8, data: &[u8]) -> Vec<u8> {
    let length = u8::try_from(data.len()).unwrap();
    [owner, &[0, kind, 0, 1, 0, 0, 0, 5, 0, length], data].concat()
}

/// Name and type of the question.
fn question(query: &[u8]) -> (String, u8) {
    let mut labels = Vec::new();
    let mut rest = &query[HEADER..];
    while rest[0] != 0 {
        let (label, after) = rest[1..].split_at(usize::from(rest[0]));
        labels.push(String::from_utf8(label.to_vec()).unwrap());
        rest = after;
    }
    (labels.join("."), rest[2])
}
