//! The connections: each has one thread and one request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use serde_json::{Value, json};

use super::objects::{Answer, failure, no_right};
use super::{ReceivedRequest, Shared, Situation, Trouble};
use crate::synthetic::server::listener;

/// Starts to accept connections.
pub(super) fn listen(shared: &Arc<Shared>) -> SocketAddr {
    let [closing, conversing] = [shared, shared].map(Arc::clone);
    listener::listen(
        move || closing.situation().closing,
        // None: the client disconnected, or should see a lost connection.
        move |stream| converse(&conversing, stream).unwrap_or_default(),
    )
}

fn converse(shared: &Shared, stream: &TcpStream) -> Option<()> {
    if shared.situation().away {
        return None;
    }
    let request = read(stream)?;
    keep(shared, stream, &request)?;
    let ((answer, after), watches) = shared.change(|situation| {
        if situation.away {
            return ((None, None), 0);
        }
        situation.requests.push(request.clone());
        (trouble(situation, &request), situation.watches)
    });
    let (status, body) = answer?;
    if request.right() == "watch nodes" {
        return watch(shared, stream, &request, watches);
    }
    let body = body.to_string();
    let retry = after.map_or(String::new(), |after| format!("Retry-After: {after}\r\n"));
    let head = format!(
        "HTTP/1.1 {status} Synthetic\r\nContent-Type: application/json\r\nConnection: close\r\n{retry}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut writer = stream;
    writer.write_all(head.as_bytes()).ok()?;
    writer.write_all(body.as_bytes()).ok()
}

/// While the server is silent, a request for an Event waits. A request whose client disconnects is not executed.
fn keep(shared: &Shared, stream: &TcpStream, request: &ReceivedRequest) -> Option<()> {
    let mut situation = shared.situation();
    if !situation.silent || !is_event(request) {
        return Some(());
    }
    situation.kept.push(stream.try_clone().ok()?);
    shared.changed.notify_all();
    while situation.silent && !situation.closing {
        let waited = shared.changed.wait(situation);
        situation = waited.unwrap_or_else(PoisonError::into_inner);
    }
    drop(situation);
    is_open(stream).then_some(())
}

/// Whether the peer still waits: it has neither closed the connection nor sent more.
pub(super) fn is_open(stream: &TcpStream) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    recv(stream.as_raw_fd(), &mut [0], flags) == Err(Errno::EAGAIN)
}

fn is_event(request: &ReceivedRequest) -> bool {
    request.path.contains("/events")
}

/// The response, unless it should fail.
fn trouble(situation: &mut Situation, request: &ReceivedRequest) -> (Option<Answer>, Option<u32>) {
    if !is_event(request) || situation.troubles.is_empty() {
        return (Some(answer(situation, request)), None);
    }
    match situation.troubles.remove(0) {
        Trouble::Spared => (Some(answer(situation, request)), None),
        Trouble::Lost => {
            answer(situation, request);
            (None, None)
        }
        Trouble::Status(code, after) => (Some(failure(code, "Trouble")), after),
    }
}

fn answer(situation: &mut Situation, request: &ReceivedRequest) -> Answer {
    if situation.unauthorized {
        return failure(401, "Unauthorized");
    }
    let right = request.right();
    let rejected = situation
        .rejected_once
        .take_if(|rejected| *rejected == right);
    if rejected.is_some() {
        return failure(401, "Unauthorized");
    }
    let is_forbidden_once = situation.forbidden_once.remove(right.as_str());
    if is_forbidden_once || situation.forbidden.contains(right.as_str()) {
        let (verb, resource) = right.split_once(' ').unwrap_or_default();
        return no_right(verb, resource);
    }
    let path: Vec<&str> = request.path.split('/').skip(1).collect();
    let objects = &mut situation.objects;
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["api", "v1", "nodes"]) => (200, Value::Null),
        ("GET", ["api", "v1", "nodes", name]) if request.body == "partial" => {
            objects.partial_node(name)
        }
        ("GET", ["api", "v1", "nodes", name]) => {
            let node = objects.node(name);
            if let Some(taint) = situation.race.take() {
                objects.add_taint(taint);
            }
            node
        }
        ("PATCH", ["api", "v1", "nodes", _name]) => objects.patch_node(&request.body),
        ("GET", ["api", "v1", "namespaces", name]) => objects.namespace(name),
        (
            "GET",
            [
                "apis",
                "apps",
                "v1",
                "namespaces",
                namespace,
                "daemonsets",
                name,
            ],
        ) => objects.daemonset(namespace, name),
        (
            "POST",
            [
                "apis",
                "events.k8s.io",
                "v1",
                "namespaces",
                namespace,
                "events",
            ],
        ) => objects.create_event(namespace, &request.body),
        (
            "PATCH",
            [
                "apis",
                "events.k8s.io",
                "v1",
                "namespaces",
                namespace,
                "events",
                name,
            ],
        ) => objects.patch_event(namespace, name, &request.body),
        _ => failure(403, "Forbidden"),
    }
}

/// Sends each change of the Node, until this watch is to end.
fn watch(
    shared: &Shared,
    stream: &TcpStream,
    request: &ReceivedRequest,
    watches: u64,
) -> Option<()> {
    let mut writer = stream;
    let head = "HTTP/1.1 200 Synthetic\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes()).ok()?;
    let parameter = |name: &str| {
        let mut pairs = request
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let name = parameter("fieldSelector")?.rsplit("%3D").next()?.to_owned();
    let mut seen: u64 = parameter("resourceVersion")?.parse().ok()?;
    let mut situation = shared.situation();
    loop {
        if situation.away || situation.closing {
            // In the middle of a watch.
            drop(stream.shutdown(Shutdown::Both));
            return None;
        }
        if situation.watches != watches {
            if situation.expired {
                let (_, status) = failure(410, "Expired");
                chunk(stream, &json!({"type": "ERROR", "object": status}))?;
            }
            return writer.write_all(b"0\r\n\r\n").ok();
        }
        if situation.objects.version() > seen {
            seen = situation.objects.version();
            let (_, node) = situation.objects.partial_node(&name);
            drop(situation);
            chunk(stream, &json!({"type": "MODIFIED", "object": node}))?;
            situation = shared.situation();
            continue;
        }
        let waited = shared.changed.wait(situation);
        situation = waited.unwrap_or_else(PoisonError::into_inner);
    }
}

fn chunk(mut stream: &TcpStream, event: &Value) -> Option<()> {
    let line = format!("{event}\n");
    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
    stream.write_all(chunk.as_bytes()).ok()
}

/// A request. The body of a metadata-only request is the word `partial`.
fn read(stream: &TcpStream) -> Option<ReceivedRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut partial) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "accept" => partial = value.contains("PartialObjectMetadata"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let body = if length > 0 {
        serde_json::from_slice(&body).ok()?
    } else if partial {
        json!("partial")
    } else {
        Value::Null
    };
    Some(ReceivedRequest {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        body,
        at: Instant::now(),
    })
}
