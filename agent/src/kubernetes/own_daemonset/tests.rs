use std::{collections::VecDeque, sync::Mutex};

use axum::{Json, Router, http::StatusCode, response::IntoResponse};
use kube::Config;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::serve::connection::{self, Clients};

/// A 404 of a proxy, or of a server that does not serve DaemonSets yet.
const FOREIGN_404: u16 = 1404;

/// An object that is being deleted.
const TERMINATING_200: u16 = 1200;

/// A client whose requests receive these status codes, one after the other.
async fn client(codes: &[u16]) -> Client {
    let codes = Arc::new(Mutex::new(VecDeque::from(codes.to_vec())));
    let respond = move || {
        let code = codes.lock().unwrap().pop_front();
        let code = code.expect("no further request");
        let status = code % 1000;
        let object = match code {
            200 => json!({"metadata": {}}),
            TERMINATING_200 => json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            404 => json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
                "reason": "NotFound", "details": {"name": "usher"},
            }),
            _ => json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status}),
        };
        let status = StatusCode::from_u16(status).unwrap();
        std::future::ready((status, Json(object)).into_response())
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(respond);
    tokio::spawn(connection::serve(listener, router, Clients::Node));
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn daemonset(codes: &[u16], is_watched: bool) -> OwnDaemonSet {
    let health = Arc::new(Health::default());
    health.set_node_watch((!is_watched).then_some("the watch failed"));
    OwnDaemonSet {
        client: client(codes).await,
        namespace: "usher".to_owned(),
        name: "usher".to_owned(),
        node_name: "node-1".to_owned(),
        health,
        was_read: AtomicBool::new(false),
    }
}

/// Of an agent that has read its DaemonSet.
async fn is_deleted(codes: &[u16], is_watched: bool) -> bool {
    let daemonset = daemonset(codes, is_watched).await;
    daemonset.was_read.store(true, Ordering::Release);
    daemonset.is_deleted().await
}

/// Kustomize's `namePrefix` changes the name of the DaemonSet only.
#[tokio::test(flavor = "current_thread")]
async fn missing_daemonset_counts_only_after_it_was_read() {
    let unread = daemonset(&[404], true).await;
    assert!(!unread.is_deleted().await);
    let read = daemonset(&[200, 404], true).await;
    read.confirm().await;
    assert!(read.is_deleted().await);
}

#[tokio::test(flavor = "current_thread")]
async fn rejections_count_only_twice_and_after_an_intact_watch() {
    let cases: [(&[u16], bool, bool); 9] = [
        (&[404], false, true),
        (&[FOREIGN_404], true, false),
        // The requests are for the DaemonSet and the Node.
        (&[403, 403, 403, 403], true, true),
        (&[403, 403, 401], true, true),
        (&[401, 401], true, true),
        (&[403, 403, 200, 200], true, false),
        (&[401, 200, 200], true, false),
        (&[403, 200], true, false),
        (&[403, 403], false, false),
    ];
    let found = cases.map(|(codes, is_watched, _)| is_deleted(codes, is_watched));
    let found = futures::future::join_all(found).await;
    assert_eq!(found, cases.map(|(.., expected)| expected));
}

#[tokio::test(flavor = "current_thread")]
async fn existing_daemonset_counts_as_deleted_with_its_namespace() {
    let cases: [(&[u16], bool); 5] = [
        (&[TERMINATING_200], true),
        // The requests are for the DaemonSet and the Namespace.
        (&[200, 200], false),
        (&[200, TERMINATING_200], true),
        (&[200, 403], false),
        (&[200, 500], false),
    ];
    let found = cases.map(|(codes, _)| is_deleted(codes, true));
    let found = futures::future::join_all(found).await;
    assert_eq!(found, cases.map(|(_, expected)| expected));
}
