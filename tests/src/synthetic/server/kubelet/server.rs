//! The connections of the kubelet's stand-in: one thread each, kept open as
//! long as the client wants.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, PoisonError};

use super::{Behaviour, Bulk, LIST, Shared, TOKEN};
use crate::synthetic::server::listener;

/// Starts to accept connections.
pub(super) fn listen(shared: &Arc<Shared>) -> SocketAddr {
    let [closing, conversing] = [shared, shared].map(Arc::clone);
    listener::listen(
        move || closing.situation().closing,
        move |stream| converse(&conversing, stream),
    )
}

/// Responds to requests until the client or the test closes the connection.
fn converse(shared: &Shared, stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    while let Some((request, authorized)) = read_head(&mut reader) {
        let Some(answer) = answer(shared, &request, authorized) else {
            return;
        };
        let mut writer = stream;
        let written = match answer {
            Answer::Whole(response) => writer.write_all(&response),
            Answer::Bulk(bulk, pods) => write_bulk(&mut writer, bulk, pods),
        };
        if written.is_err() {
            return;
        }
    }
}

enum Answer {
    Whole(Vec<u8>),
    /// A list of these and the node's pods, which need not fit into memory.
    Bulk(Bulk, Vec<String>),
}

/// Writes a list in chunks, one for each pod.
fn write_bulk(writer: &mut impl Write, bulk: Bulk, pods: Vec<String>) -> io::Result<()> {
    let head = "HTTP/1.1 200 Synthetic\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes())?;
    let mut chunk = |text: &str| {
        let size = format!("{:x}\r\n", text.len());
        writer.write_all(&[size.as_bytes(), text.as_bytes(), b"\r\n"].concat())
    };
    chunk(LIST)?;
    let mut separator = "";
    for pod in (0..bulk.pods).map(bulk.pod).chain(pods) {
        chunk(&format!("{separator}{pod}"))?;
        separator = ",";
    }
    chunk("]}\n")?;
    chunk("")
}

/// The request line, and whether the token is valid.
fn read_head(reader: &mut impl BufRead) -> Option<(String, bool)> {
    let (mut request, mut authorized) = (String::new(), false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Some((request, authorized));
        }
        if request.is_empty() {
            request = line.to_owned();
        } else if let Some((name, value)) = line.split_once(':') {
            let right = value.trim().strip_prefix("Bearer ") == Some(TOKEN);
            authorized |= name.eq_ignore_ascii_case("authorization") && right;
        }
    }
}

/// None: close the connection without a response.
fn answer(shared: &Shared, request: &str, authorized: bool) -> Option<Answer> {
    let whole = |code, kind, body: &str| Some(Answer::Whole(response(code, kind, body)));
    let path = request
        .strip_prefix("GET ")
        .and_then(|rest| rest.split(' ').next());
    if !matches!(path, Some("/pods" | "/pods/")) {
        return whole(404, "text/plain", "404 page not found\n");
    }
    let (behaviour, status_lag, bulk) = {
        let mut situation = shared.situation();
        let behaviour = situation.behaviour;
        situation.requests.push(behaviour);
        if std::mem::take(&mut situation.once) {
            situation.behaviour = Behaviour::Silence;
        }
        (behaviour, situation.status_lag, situation.bulk)
    };
    shared.changed.notify_all();
    if !authorized {
        return whole(401, "text/plain", "Unauthorized");
    }
    match (behaviour, bulk) {
        (Behaviour::Ok, Some(bulk)) => Some(Answer::Bulk(bulk, shared.pods(status_lag))),
        (Behaviour::Ok, None) => whole(200, "application/json", &shared.pod_list(status_lag)),
        (Behaviour::Status(code), _) => whole(code, "text/plain", "as the test wants it"),
        (Behaviour::TruncatedJson, _) => {
            let mut list = shared.pod_list(status_lag);
            list.truncate(list.len() / 2);
            whole(200, "application/json", &list)
        }
        (Behaviour::Silence, _) => {
            let mut situation = shared.situation();
            while situation.behaviour == Behaviour::Silence && !situation.closing {
                let waited = shared.changed.wait(situation);
                situation = waited.unwrap_or_else(PoisonError::into_inner);
            }
            None
        }
    }
}

fn response(code: u16, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code} Synthetic\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}
