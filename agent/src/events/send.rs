//! One request for one Event, and what its answer means.
//!
//! The answer is looked at by status and `Retry-After`, which the API server gives with 429 also where
//! its body is no `Status`.

use std::time::Duration;

use http_body_util::{BodyExt, Collected, Limited};
use hyper::{HeaderMap, Request, StatusCode, body::Bytes, header};
use kube::{Client, client::Body};
use usher_core::notice::{Answer, Order};

use crate::telemetry::chain;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Of an answer this much is read, to say why it was refused.
const LONGEST: usize = 64 * 1024;
/// Of that this much is said.
const SAID: usize = 512;
/// In the answer where a namespace is being deleted.
const TERMINATING: &str = "NamespaceTerminating";

/// It was not taken.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) answer: Answer,
    pub(super) why: String,
}

/// Sends it.
pub(super) async fn send(client: &Client, order: &Order) -> Result<(), Error> {
    let path = format!(
        "/apis/events.k8s.io/v1/namespaces/{}/events",
        order.namespace
    );
    let (request, kind) = if order.create {
        (Request::post(path), "application/json")
    } else {
        let path = format!("{path}/{}", order.name);
        (Request::patch(path), "application/merge-patch+json")
    };
    let bytes = order.body.to_string().into_bytes();
    let request = request.header(header::CONTENT_TYPE, kind);
    let request = request.body(Body::from(bytes)).map_err(|error| Error {
        answer: Answer::Refused,
        why: error.to_string(),
    })?;
    let later = |why| Error {
        answer: Answer::Later(None),
        why,
    };
    let exchange = async {
        let answer = client.send(request).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST).collect().await;
        // The status has said what counts.
        let body = body.map_or_else(|_broken| Bytes::new(), Collected::to_bytes);
        Ok((head, body))
    };
    let answer: Result<_, kube::Error> = tokio::time::timeout(TIMEOUT, exchange)
        .await
        .map_err(|_elapsed| later(format!("no answer within {TIMEOUT:?}")))?;
    let (head, body) = answer.map_err(|error| later(chain(&error)))?;
    let body = String::from_utf8_lossy(&body);
    let answer = meaning(order.create, head.status, &head.headers, &body);
    if answer == Answer::Taken {
        return Ok(());
    }
    let said: String = body.chars().take(SAID).collect();
    Err(Error {
        answer,
        why: format!("status {}: {said}", head.status.as_u16()),
    })
}

fn meaning(create: bool, status: StatusCode, headers: &HeaderMap, body: &str) -> Answer {
    let after = || {
        let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        Some(Duration::from_secs(value.parse().ok()?))
    };
    match status {
        status if status.is_success() => Answer::Taken,
        // From an attempt whose answer was lost, or from an earlier agent.
        StatusCode::CONFLICT if create => Answer::Taken,
        // Its namespace, or an Event that is as old as Events get.
        StatusCode::NOT_FOUND => Answer::Gone,
        StatusCode::FORBIDDEN if body.contains(TERMINATING) => Answer::Gone,
        StatusCode::CONFLICT
        | StatusCode::UNAUTHORIZED
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => Answer::Later(after()),
        status if status.is_server_error() => Answer::Later(after()),
        _ => Answer::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let mut headers = HeaderMap::new();
        let terminating = r#"{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
        for (create, status, body, expected) in [
            (true, 201, "", Answer::Taken),
            (false, 200, "", Answer::Taken),
            (true, 409, "", Answer::Taken),
            (false, 409, "", Answer::Later(None)),
            (true, 404, "", Answer::Gone),
            (false, 404, "", Answer::Gone),
            (true, 403, terminating, Answer::Gone),
            (true, 403, "no right", Answer::Refused),
            (true, 400, "", Answer::Refused),
            (true, 422, "", Answer::Refused),
            (true, 302, "", Answer::Refused),
            (true, 401, "", Answer::Later(None)),
            (true, 500, "", Answer::Later(None)),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                meaning(create, status, &headers, body),
                expected,
                "{status}"
            );
        }
        let later = |headers: &HeaderMap, status| meaning(true, status, headers, "");
        for (text, seconds) in [("7", Some(7)), ("soon", None), ("-1", None)] {
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
            let expected = Answer::Later(seconds.map(Duration::from_secs));
            for status in [
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::SERVICE_UNAVAILABLE,
            ] {
                assert_eq!(later(&headers, status), expected);
            }
        }
    }
}
