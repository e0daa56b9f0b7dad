//! The connections of the kubelet's stand-in: one thread each, kept open as
//! long as the client wants.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, PoisonError};

use super::{Behaviour, Shared, TOKEN};
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
        if writer.write_all(&answer).is_err() {
            return;
        }
    }
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
fn answer(shared: &Shared, request: &str, authorized: bool) -> Option<Vec<u8>> {
    let path = request
        .strip_prefix("GET ")
        .and_then(|rest| rest.split(' ').next());
    if !matches!(path, Some("/pods" | "/pods/")) {
        return Some(response(404, "text/plain", "404 page not found\n"));
    }
    let (behaviour, status_lag) = {
        let mut situation = shared.situation();
        let behaviour = situation.behaviour;
        situation.asked.push(behaviour);
        if std::mem::take(&mut situation.once) {
            situation.behaviour = Behaviour::Silence;
        }
        (behaviour, situation.status_lag)
    };
    shared.changed.notify_all();
    if !authorized {
        return Some(response(401, "text/plain", "Unauthorized"));
    }
    match behaviour {
        Behaviour::Ok => {
            let list = shared.pod_list(status_lag);
            Some(response(200, "application/json", &list))
        }
        Behaviour::Status(code) => Some(response(code, "text/plain", "as the test wants it")),
        Behaviour::TruncatedJson => {
            let mut list = shared.pod_list(status_lag);
            list.truncate(list.len() / 2);
            Some(response(200, "application/json", &list))
        }
        Behaviour::Silence => {
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
