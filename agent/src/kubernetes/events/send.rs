//! One request for one Event, and what its answer means.
//!
//! The answer is looked at by status and `Retry-After`, which the API server gives with 429 also where
//! its body is no `Status`.

use std::time::Duration;

use http_body_util::{BodyExt, Collected, Limited};
use hyper::{HeaderMap, Request, StatusCode, body::Bytes, header};
use kube::{Client, client::Body};
use usher_client::error_chain::chain;
use usher_core::kube_event::{ApiRequest, ApiResult};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Of an answer this much is read, to say why it was refused.
const LONGEST: usize = 64 * 1024;
/// Of that this much is said.
const SAID: usize = 512;
/// In the answer where a namespace is being deleted.
const TERMINATING: &str = "NamespaceTerminating";
/// In the answer where a right is missing, which is usher's own matter and no pod's: quotas and admission forbid in other words. A
/// server that has just begun says it of everybody for some 100 ms, until it has read the roles
/// ([ForbiddenMessage](https://github.com/kubernetes/kubernetes/blob/v1.33.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go)).
const NO_RIGHT: [&str; 2] = [
    r#"cannot create resource \"events\""#,
    r#"cannot patch resource \"events\""#,
];

/// It was not taken.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) answer: ApiResult,
    pub(super) why: String,
    /// The server answered that it does not take it, now or ever.
    pub(super) is_refusal: bool,
}

/// Sends it.
pub(super) async fn send(client: &Client, order: &ApiRequest) -> Result<(), Error> {
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
        answer: ApiResult::Rejected,
        why: error.to_string(),
        is_refusal: true,
    })?;
    let later = |why| Error {
        answer: ApiResult::Retry(None),
        why,
        is_refusal: false,
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
    if answer == ApiResult::Accepted {
        return Ok(());
    }
    let said: String = body.chars().take(SAID).collect();
    Err(Error {
        answer,
        why: format!("status {}: {said}", head.status.as_u16()),
        is_refusal: head.status == StatusCode::FORBIDDEN || answer == ApiResult::Rejected,
    })
}

fn meaning(create: bool, status: StatusCode, headers: &HeaderMap, body: &str) -> ApiResult {
    let after = || {
        let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        Some(Duration::from_secs(value.parse().ok()?))
    };
    match status {
        status if status.is_success() => ApiResult::Accepted,
        // From an attempt whose answer was lost, or from an earlier agent.
        StatusCode::CONFLICT if create => ApiResult::Accepted,
        // Its namespace, or an Event that is as old as Events get.
        StatusCode::NOT_FOUND => ApiResult::Gone,
        StatusCode::FORBIDDEN if body.contains(TERMINATING) => ApiResult::Gone,
        StatusCode::FORBIDDEN if NO_RIGHT.iter().any(|words| body.contains(words)) => {
            ApiResult::Retry(None)
        }
        StatusCode::CONFLICT
        | StatusCode::UNAUTHORIZED
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => ApiResult::Retry(after()),
        status if status.is_server_error() => ApiResult::Retry(after()),
        _ => ApiResult::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let mut headers = HeaderMap::new();
        let terminating = r#"{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
        // As a real server of 1.36 said it.
        let no_right = r#"{"kind":"Status","message":"events.events.k8s.io is forbidden: User \"system:serviceaccount:usher:usher\" cannot create resource \"events\" in API group \"events.k8s.io\" in the namespace \"shop\"","code":403}"#;
        let no_patch = no_right.replace("create", "patch");
        let quota = r#"{"message":"events.events.k8s.io \"a\" is forbidden: exceeded quota: cannot-create","code":403}"#;
        for (create, status, body, expected) in [
            (true, 201, "", ApiResult::Accepted),
            (false, 200, "", ApiResult::Accepted),
            (true, 409, "", ApiResult::Accepted),
            (false, 409, "", ApiResult::Retry(None)),
            (true, 404, "", ApiResult::Gone),
            (false, 404, "", ApiResult::Gone),
            (true, 403, terminating, ApiResult::Gone),
            (true, 403, no_right, ApiResult::Retry(None)),
            (false, 403, &no_patch, ApiResult::Retry(None)),
            (true, 403, quota, ApiResult::Rejected),
            (true, 400, "", ApiResult::Rejected),
            (true, 422, "", ApiResult::Rejected),
            (true, 302, "", ApiResult::Rejected),
            (true, 401, "", ApiResult::Retry(None)),
            (true, 500, "", ApiResult::Retry(None)),
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
            let expected = ApiResult::Retry(seconds.map(Duration::from_secs));
            for status in [
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::SERVICE_UNAVAILABLE,
            ] {
                assert_eq!(later(&headers, status), expected);
            }
        }
    }
}
