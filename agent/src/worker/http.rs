//! The HTTP/1.1 request of an attempt, and its outcome.

use http_body_util::Empty;
use hyper::{
    Response, StatusCode,
    body::{Bytes, Incoming},
    header,
};
use usher_client::error_chain::chain;
use usher_core::{quit::outcome::Outcome, recipe::step::Request};

/// Limit of a response's head. A sidecar sends a status line and a few headers.
pub(super) const HEAD_BYTES: usize = 16 * 1024;

pub(super) fn message(
    request: &Request,
    headers: Vec<(String, String)>,
) -> Result<hyper::Request<Empty<Bytes>>, hyper::http::Error> {
    let mut builder = hyper::Request::builder()
        .method(request.method.into_str())
        .uri(&request.path)
        .header(header::HOST, format!("localhost:{}", request.port))
        .header(header::CONNECTION, "close")
        .header(header::CONTENT_LENGTH, 0);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Empty::new())
}

/// Reads the status only.
pub(super) async fn status(response: Response<Incoming>) -> StatusCode {
    response.status()
}

pub(super) fn outcome(status: Result<StatusCode, hyper::Error>) -> Outcome {
    match status {
        Ok(status) if status.is_success() => Outcome::Accepted,
        Ok(status) => Outcome::Rejected(status.as_u16()),
        Err(error) if error.is_parse() => Outcome::Failed(chain(&error)),
        // The connection was closed after the request, which also happens when the process exits.
        Err(_closed) => Outcome::NoReply,
    }
}
