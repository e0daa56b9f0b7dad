//! Streams decisions to clients when the recorder records them.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{Stream, stream};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use usher_core::{admin::WatchLine, decision::timeline::Entry};

use super::Admin;

/// Most readers at the same time. Each has a connection; they share the buffer of entries.
const READERS: usize = 16;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/v1/watch", get(watch))
}

/// Streams lines of JSON: timeline entries, and the number of entries that a slow reader missed.
async fn watch(State(admin): State<Admin>) -> Response {
    if admin.recorder.entries.receiver_count() >= READERS {
        let text = format!("too many readers: {READERS} watch already\n");
        return (StatusCode::TOO_MANY_REQUESTS, text).into_response();
    }
    let lines = lines(admin.recorder.entries.subscribe());
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(lines)).into_response()
}

fn lines(entries: Receiver<Arc<Entry>>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(entries, |mut entries| async {
        let line = match entries.recv().await {
            Ok(entry) => entry.line(),
            Err(RecvError::Lagged(missed)) => missed_line(missed),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(Bytes::from(line)), entries))
    })
}

fn missed_line(missed: u64) -> String {
    // Encoding a number cannot fail.
    let mut line = serde_json::to_string(&WatchLine::Missed { missed }).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::sync::broadcast;
    use usher_core::decision::timeline::Detail;

    use super::*;

    fn entry(at_ms: u64) -> Arc<Entry> {
        Arc::new(Entry {
            at_ms,
            uid: "u".to_owned(),
            pod: "shop/report".to_owned(),
            detail: Detail::Waiting,
            container: None,
            reason: "r".to_owned(),
            since_exit_ms: None,
        })
    }

    #[tokio::test(flavor = "current_thread")]
    async fn slow_reader_receives_the_number_of_missed_entries() {
        let (sender, receiver) = broadcast::channel(4);
        let lines = lines(receiver);
        for at_ms in 0..10 {
            sender.send(entry(at_ms)).unwrap();
        }
        drop(sender);
        let lines: Vec<WatchLine> = lines
            .map(|line| serde_json::from_slice(&line.unwrap()).unwrap())
            .collect()
            .await;
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[0], WatchLine::Missed { missed: 6 });
        assert!(matches!(&lines[4], WatchLine::Entry(entry) if entry.at_ms == 9));
    }
}
