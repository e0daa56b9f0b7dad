//! One HTTP/1.1 request without a body, and its bounded answer.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Response,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use usher_client::error_chain::chain;
use usher_core::{quit::outcome::Outcome, recipe::step::Request};

/// A sidecar's answer is a status line and a few headers; more is not read.
const HEAD_BYTES: usize = 16 * 1024;
/// Where the body is wanted: Envoy's `server_info` has some 10 kB.
const BODY_BYTES: usize = 256 * 1024;

/// Sends a request and says what came of it.
pub(super) async fn outcome(
    stream: TcpStream,
    request: &Request,
    headers: Vec<(String, String)>,
) -> Outcome {
    let request = match message(request, headers) {
        Ok(request) => request,
        // Not the error's own text: a value in it may be a secret.
        Err(_bad) => {
            return Outcome::Failed("a header cannot be made of the variable's value".to_owned());
        }
    };
    let read_nothing = |answer: Response<Incoming>| async move { answer.status() };
    match exchange(stream, request, read_nothing).await {
        Ok(status) if status.is_success() => Outcome::Accepted,
        Ok(status) => Outcome::Rejected(status.as_u16()),
        Err(error) if error.is_parse() => Outcome::Failed(chain(&error)),
        // Closed or reset with the request on its way: that is how a quitting
        // process looks, too.
        Err(_closed) => Outcome::NoReply,
    }
}

/// Sends a request and reads the body of a good answer.
pub(super) async fn body(stream: TcpStream, request: &Request) -> Option<String> {
    let read = |answer: Response<Incoming>| async {
        if !answer.status().is_success() {
            return None;
        }
        let body = Limited::new(answer.into_body(), BODY_BYTES).collect().await;
        String::from_utf8(body.ok()?.to_bytes().into()).ok()
    };
    let request = message(request, Vec::new()).ok()?;
    exchange(stream, request, read).await.ok()?
}

fn message(
    request: &Request,
    headers: Vec<(String, String)>,
) -> Result<hyper::Request<Empty<Bytes>>, hyper::http::Error> {
    let mut builder = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(&request.path)
        .header(header::HOST, format!("localhost:{}", request.port))
        .header(header::CONNECTION, "close")
        .header(header::CONTENT_LENGTH, 0);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Empty::new())
}

async fn exchange<T, Read: Future<Output = T>>(
    stream: TcpStream,
    request: hyper::Request<Empty<Bytes>>,
    read: impl FnOnce(Response<Incoming>) -> Read,
) -> Result<T, hyper::Error> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    let answer = async { Ok(read(sender.send_request(request).await?).await) };
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // Polling the connection is what moves the bytes; it may end with the
        // answer in hand.
        _closed = connection => answer.await,
    }
}
