//! A stand-in for the API server: pods, access reviews, and `exec` over a WebSocket.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};
use tungstenite::{
    Message, WebSocket,
    handshake::server::{Request, Response},
};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const CLOSE: u8 = 255;
/// The longest message that a real kubelet sends.
const MESSAGE: usize = 32 * 1024;

/// A command that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executed {
    /// `namespace/name` of the pod.
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) words: Vec<String>,
    pub(crate) stdin: Vec<u8>,
}

/// The output of a command, and its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// None breaks the connection.
    pub(crate) code: Option<u8>,
}

type Program = dyn Fn(&Executed) -> Reply + Send + Sync;

pub(crate) struct Cluster {
    pub(crate) pods: Vec<Value>,
    /// Verb, resource and namespace, such as `list pods` and `get pods/exec in usher`.
    pub(crate) forbidden: Vec<&'static str>,
    pub(crate) program: Box<Program>,
}

pub(crate) struct Server {
    pub(crate) url: String,
    executed: Arc<Mutex<Vec<Executed>>>,
}

impl Server {
    pub(crate) fn start(cluster: Cluster) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let executed = Arc::<Mutex<Vec<Executed>>>::default();
        let cluster = Arc::new(cluster);
        let kept = Arc::clone(&executed);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let (cluster, kept) = (Arc::clone(&cluster), Arc::clone(&kept));
                thread::spawn(move || serve(stream, &cluster, &kept));
            }
        });
        Self { url, executed }
    }

    pub(crate) fn executed(&self) -> Vec<Executed> {
        self.executed.lock().unwrap().clone()
    }
}

/// One connection with one request.
fn serve(stream: TcpStream, cluster: &Cluster, executed: &Mutex<Vec<Executed>>) {
    let head = peeked_head(&stream);
    let mut words = head.split_whitespace();
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let missing = |right: &str| cluster.forbidden.contains(&right);
    let named = |pod: &Value, namespace: &str, name: &str| {
        pod["metadata"]["namespace"] == namespace && pod["metadata"]["name"] == name
    };
    match (method, &parts[..]) {
        ("GET", ["api", "v1", "namespaces", namespace, "pods", name, "exec"]) => {
            if missing(&format!("get pods/exec in {namespace}")) {
                return respond(stream, 403, &failure(403, "Forbidden", "pods is forbidden"));
            }
            execute(stream, cluster, executed, &format!("{namespace}/{name}"));
        }
        ("GET", ["api", "v1", "namespaces", namespace, "pods", name]) => {
            if missing(&format!("get pods in {namespace}")) {
                return respond(stream, 403, &failure(403, "Forbidden", "pods is forbidden"));
            }
            match cluster.pods.iter().find(|pod| named(pod, namespace, name)) {
                Some(pod) => respond(stream, 200, pod),
                None => respond(stream, 404, &failure(404, "NotFound", "pods not found")),
            }
        }
        ("GET", ["api", "v1", "pods"]) if missing("list pods") => {
            respond(stream, 403, &failure(403, "Forbidden", "pods is forbidden"));
        }
        ("GET", ["api", "v1", "namespaces", namespace, "pods"])
            if missing(&format!("list pods in {namespace}")) =>
        {
            respond(stream, 403, &failure(403, "Forbidden", "pods is forbidden"));
        }
        ("GET", ["api", "v1", "pods"] | ["api", "v1", "namespaces", _, "pods"]) => {
            let namespace = parts.get(3).copied().filter(|_| parts.len() > 3);
            let node = parameter(query, "fieldSelector")
                .and_then(|selector| Some(selector.split_once('=')?.1.to_owned()));
            let agents = parameter(query, "labelSelector").is_some();
            let items = cluster.pods.iter().filter(|pod| {
                namespace.is_none_or(|namespace| pod["metadata"]["namespace"] == namespace)
                    && node
                        .as_ref()
                        .is_none_or(|node| pod["spec"]["nodeName"] == *node)
                    && (!agents || !pod["metadata"]["labels"].is_null())
            });
            let items: Vec<&Value> = items.collect();
            let list =
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
            respond(stream, 200, &list);
        }
        (
            "POST",
            [
                "apis",
                "authorization.k8s.io",
                "v1",
                "selfsubjectaccessreviews",
            ],
        ) => {
            let mut review = body(&stream);
            let attributes = review["spec"]["resourceAttributes"].clone();
            let [verb, resource, sub, namespace] = ["verb", "resource", "subresource", "namespace"]
                .map(|key| attributes[key].as_str().unwrap_or_default().to_owned());
            let is_missing = missing(&format!("{verb} {resource}/{sub} in {namespace}"));
            review["status"] = json!({"allowed": !is_missing});
            respond(stream, 201, &review);
        }
        request => panic!("unexpected request {request:?}"),
    }
}

#[expect(
    clippy::result_large_err,
    reason = "the type of tungstenite's callback"
)]
fn execute(stream: TcpStream, cluster: &Cluster, executed: &Mutex<Vec<Executed>>, pod: &str) {
    let mut query = String::new();
    let agree = |request: &Request, mut response: Response| {
        query = request.uri().query().unwrap_or_default().to_owned();
        let protocol = "v5.channel.k8s.io".parse().unwrap();
        response
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", protocol);
        Ok(response)
    };
    let mut socket = tungstenite::accept_hdr(stream, agree).unwrap();
    let words = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("command="));
    let words: Vec<String> = words.map(decoded).collect();
    // It has no data, and ends with the connection.
    let is_open = words.iter().any(|word| word == "--end-with-stdin");
    let received = Executed {
        pod: pod.to_owned(),
        container: parameter(&query, "container").unwrap_or_default(),
        words,
        stdin: match parameter(&query, "stdin").as_deref() {
            Some("true") if !is_open => stdin(&mut socket),
            _ => Vec::new(),
        },
    };
    executed.lock().unwrap().push(received.clone());
    let reply = (cluster.program)(&received);
    let mut send = |channel: u8, bytes: &[u8]| {
        for chunk in bytes.chunks(MESSAGE) {
            // The client may end before it has read all data.
            drop(socket.send(Message::binary([&[channel], chunk].concat())));
        }
    };
    send(STDERR, &reply.stderr);
    send(STDOUT, &reply.stdout);
    let Some(code) = reply.code else {
        return;
    };
    send(STATUS, status(code).to_string().as_bytes());
    drop(socket.close(None));
    // Read until the client closes its end.
    while socket.read().is_ok() {}
}

fn stdin(socket: &mut WebSocket<TcpStream>) -> Vec<u8> {
    let mut stdin = Vec::new();
    loop {
        match socket.read().unwrap() {
            Message::Binary(bytes) if bytes[..] == [CLOSE, STDIN] => return stdin,
            Message::Binary(bytes) => stdin.extend_from_slice(&bytes[1..]),
            _ => {}
        }
    }
}

fn status(code: u8) -> Value {
    match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with exit code {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
    }
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

/// The head of a request, which stays in the socket.
fn peeked_head(stream: &TcpStream) -> String {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let length = stream.peek(&mut bytes).unwrap();
        let head = String::from_utf8_lossy(&bytes[..length]);
        if length == 0 || head.contains("\r\n\r\n") {
            return head.into_owned();
        }
    }
}

/// The body of a request.
fn body(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim_end().is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim_end().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn respond(mut stream: TcpStream, code: u16, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} Stand-in\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The client may have ended.
    drop(stream.write_all((head + &body).as_bytes()));
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(key, _)| *key == name)
        .map(|(_, value)| decoded(value))
}

/// A value of a query, in the encoding of forms.
fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).unwrap()
}
