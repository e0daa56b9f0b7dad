//! Posts one Event, and interprets the response.
//!
//! The status and `Retry-After` decide: with 429 the API server sends `Retry-After` even if the body is no `Status`.

use std::time::Duration;

use http_body_util::{BodyExt, Collected, Limited};
use hyper::{HeaderMap, Request, StatusCode, body::Bytes, header};
use kube::{
    Client,
    client::Body,
    core::{Status, response::reason},
};
use usher_client::error_chain::chain;
use usher_core::kube_event::{ApiRequest, ApiResult};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of the response that are read, for the error message.
const LONGEST: usize = 64 * 1024;
/// Characters of the response in the error message.
const QUOTED: usize = 512;
/// Part of the response if the namespace is being deleted.
const TERMINATING: &str = "NamespaceTerminating";
/// Part of the response if usher's role lacks a permission. Quotas and admission policies use other words. For some 100
/// ms after its start, an API server sends this response to every client, until it has read the roles
/// ([ForbiddenMessage](https://github.com/kubernetes/kubernetes/blob/v1.33.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go)).
const NO_RIGHT: [&str; 2] = [
    r#"cannot create resource \"events\""#,
    r#"cannot patch resource \"events\""#,
];

/// The API server did not accept the Event.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) result: ApiResult,
    pub(super) why: String,
    /// Whether the server would also reject a retry.
    pub(super) is_refusal: bool,
}

pub(super) async fn post(client: &Client, event: &ApiRequest) -> Result<(), Error> {
    let path = format!(
        "/apis/events.k8s.io/v1/namespaces/{}/events",
        event.namespace
    );
    let (request, kind) = if event.create {
        (Request::post(path), "application/json")
    } else {
        let path = format!("{path}/{}", event.name);
        (Request::patch(path), "application/merge-patch+json")
    };
    let bytes = event.body.to_string().into_bytes();
    let request = request.header(header::CONTENT_TYPE, kind);
    let request = request.body(Body::from(bytes)).map_err(|error| Error {
        result: ApiResult::Rejected,
        why: error.to_string(),
        is_refusal: true,
    })?;
    let later = |why| Error {
        result: ApiResult::Retry(None),
        why,
        is_refusal: false,
    };
    let exchange = async {
        let response = client.send(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LONGEST).collect().await;
        // For a truncated body the status suffices.
        let body = body.map_or_else(|_broken| Bytes::new(), Collected::to_bytes);
        Ok((head, body))
    };
    let response: Result<_, kube::Error> = tokio::time::timeout(TIMEOUT, exchange)
        .await
        .map_err(|_elapsed| later(format!("no response within {TIMEOUT:?}")))?;
    let (head, body) = response.map_err(|error| later(chain(&error)))?;
    let body = String::from_utf8_lossy(&body);
    let result = meaning(event.create, head.status, &head.headers, &body);
    if result == ApiResult::Accepted {
        return Ok(());
    }
    let quoted: String = body.chars().take(QUOTED).collect();
    Err(Error {
        result,
        why: format!("status {}: {quoted}", head.status.as_u16()),
        is_refusal: head.status == StatusCode::FORBIDDEN || result == ApiResult::Rejected,
    })
}

/// Whether the response is a `Status` about one object, with this reason.
fn has_reason(body: &str, reason: &str) -> bool {
    let status: Option<Status> = serde_json::from_str(body).ok();
    status.is_some_and(|status| status.reason == reason && status.details.is_some())
}

fn meaning(create: bool, status: StatusCode, headers: &HeaderMap, body: &str) -> ApiResult {
    let after = || {
        let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        Some(Duration::from_secs(value.parse().ok()?))
    };
    match status {
        status if status.is_success() => ApiResult::Accepted,
        // The Event exists: an earlier attempt's response was lost, or an earlier agent created it.
        StatusCode::CONFLICT if create && has_reason(body, reason::ALREADY_EXISTS) => {
            ApiResult::Accepted
        }
        // The namespace was deleted, or the Event has expired. A proxy, or a server that does not serve the API yet, gives
        // no reason.
        StatusCode::NOT_FOUND if has_reason(body, reason::NOT_FOUND) => ApiResult::Gone,
        StatusCode::FORBIDDEN if body.contains(TERMINATING) => ApiResult::Gone,
        StatusCode::FORBIDDEN if NO_RIGHT.iter().any(|words| body.contains(words)) => {
            ApiResult::Retry(None)
        }
        StatusCode::CONFLICT
        | StatusCode::NOT_FOUND
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
    fn meaning_of_each_response() {
        let mut headers = HeaderMap::new();
        let terminating = r#"{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
        // Recorded from an API server 1.36.
        let no_right = r#"{"kind":"Status","message":"events.events.k8s.io is forbidden: User \"system:serviceaccount:usher:usher\" cannot create resource \"events\" in API group \"events.k8s.io\" in the namespace \"shop\"","code":403}"#;
        let exists = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"events.events.k8s.io \"a\" already exists","reason":"AlreadyExists","details":{"name":"a","group":"events.k8s.io","kind":"events"},"code":409}"#;
        let no_namespace = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"shop\" not found","reason":"NotFound","details":{"name":"shop","kind":"namespaces"},"code":404}"#;
        let no_patch = no_right.replace("create", "patch");
        let quota = r#"{"message":"events.events.k8s.io \"a\" is forbidden: exceeded quota: cannot-create","code":403}"#;
        for (create, status, body, expected) in [
            (true, 201, "", ApiResult::Accepted),
            (false, 200, "", ApiResult::Accepted),
            (true, 409, exists, ApiResult::Accepted),
            (true, 409, "", ApiResult::Retry(None)),
            (false, 409, exists, ApiResult::Retry(None)),
            (true, 404, no_namespace, ApiResult::Gone),
            (false, 404, no_namespace, ApiResult::Gone),
            (true, 404, "404 page not found", ApiResult::Retry(None)),
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
