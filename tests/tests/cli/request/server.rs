//! A server in a pod's network namespace that sends these raw bytes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use usher_tests::synthetic::Pod;

use crate::network::inside;

/// The length of a large body.
pub(super) const LARGE: usize = 5 * 1024 * 1024;

/// Responses that curl accepts as well: path, status, bytes.
pub(super) const ANSWERS: &[(&str, u16, &[u8])] = &[
    ("/plain", 200, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n"),
    ("/empty", 204, b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n"),
    ("/unchanged", 304, b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
    ("/zero", 200, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("/missing", 404, b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
    ("/broken", 503, b"HTTP/1.0 503 Service Unavailable\r\n\r\nupstream connect error"),
    ("/moved", 302, b"HTTP/1.1 302 Found\r\nLocation: /plain\r\nContent-Length: 0\r\n\r\n"),
    (
        "/chunked",
        200,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nhello, \r\n5;x=y\r\nworld\r\n0\r\n\r\n",
    ),
    ("/until-close", 200, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end"),
    (
        "/early",
        200,
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    ("/hostile", 200, HOSTILE),
    ("/cased", 200, b"HTTP/1.1 200 Fine, Thank You\r\nx-LOWER-Upper:no space\r\nX-Twice: 1\r\nX-Twice: 2\r\nContent-Length: 1\r\n\r\n!"),
];
const HOSTILE: &[u8] = b"HTTP/1.1 200 OK\r\nX-Title: \x1b]0;owned\x07\r\nX-C1: \xc2\x9b31m\r\nX-Bytes: \xff\xfe\r\nConnection: close\r\n\r\nbody \x1b[2J \xe2\x80\xae a\tb\n";

/// Invalid responses.
const OTHERS: &[(&str, &[u8])] = &[
    ("/short", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
    ("/bad-chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello"),
    ("/not-http", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ("/closed", b""),
    ("/trailer", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: x\r\n\r\n"),
    ("/lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
];

/// A server in a pod. It serves as long as the test runs.
pub(super) struct Server {
    address: SocketAddr,
    received: Mutex<Receiver<Vec<u8>>>,
}

impl Server {
    pub(super) fn start(pod: &Pod) -> Self {
        let listener = inside(pod, || TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let (asks, received) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let asks = asks.clone();
                thread::spawn(move || serve(stream.unwrap(), &asks));
            }
        });
        Self {
            address,
            received: Mutex::new(received),
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next received request.
    pub(super) fn received(&self) -> String {
        let received = self.received.lock().unwrap();
        let bytes = received.recv_timeout(Duration::from_secs(30)).unwrap();
        bytes.iter().map(|byte| char::from(*byte)).collect()
    }
}

/// Waits until the client closes.
fn closed(stream: &mut TcpStream) -> std::io::Result<()> {
    std::io::copy(stream, &mut std::io::sink()).map(drop)
}

fn serve(mut stream: TcpStream, asks: &Sender<Vec<u8>>) {
    let received = request(&mut stream);
    let line = String::from_utf8_lossy(&received).into_owned();
    drop(asks.send(received));
    let path = line.split(' ').nth(1).unwrap_or_default();
    let is_head = line.starts_with("HEAD ");
    let known = ANSWERS.iter().map(|(path, _, answer)| (path, answer));
    let mut known = known.chain(OTHERS.iter().map(|(path, answer)| (path, answer)));
    // A client that has enough closes.
    drop(match path {
        "/never" => closed(&mut stream),
        "/half" => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"));
            closed(&mut stream)
        }
        large if large.starts_with("/large") => stream.write_all(&self::large(large)),
        path => {
            let answer = known
                .find(|(known, _)| **known == path)
                .map_or(&b""[..], |(_, answer)| answer);
            // An interim response is a head, too.
            let end = answer
                .windows(4)
                .rposition(|end| end == b"\r\n\r\n")
                .map(|at| at + 4);
            let end = end.filter(|_| is_head && path != "/chunked");
            let first = answer
                .windows(4)
                .position(|end| end == b"\r\n\r\n")
                .map(|at| at + 4);
            let end = if is_head && path == "/chunked" {
                first
            } else {
                end
            };
            stream.write_all(&answer[..end.unwrap_or(answer.len())])
        }
    });
}

/// Reads a request with its body.
fn request(stream: &mut TcpStream) -> Vec<u8> {
    let (mut received, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let head = received.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            if received.len() >= head + 4 + length {
                return received;
            }
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return received,
            Ok(length) => received.extend_from_slice(&part[..length]),
        }
    }
}

/// A large response, ended in the way that its path names.
fn large(path: &str) -> Vec<u8> {
    let body: Vec<u8> = (0..LARGE).map(|at| (at / 251) as u8).collect();
    let head = |line: String| format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").into_bytes();
    match path {
        "/large-chunked" => {
            let mut answer = head("Transfer-Encoding: chunked".to_owned());
            for chunk in body.chunks(100_003) {
                answer.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                answer.extend_from_slice(chunk);
                answer.extend_from_slice(b"\r\n");
            }
            answer.extend_from_slice(b"0\r\n\r\n");
            answer
        }
        "/large-until-close" => [head("Connection: close".to_owned()), body].concat(),
        _ => [head(format!("Content-Length: {LARGE}")), body].concat(),
    }
}
