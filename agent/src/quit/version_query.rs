//! Version queries: a `GET` to a sidecar with an answer in the body.

use std::{sync::Arc, time::Duration};

use http_body_util::{BodyExt, Limited};
use hyper::{Response, body::Incoming};
use tracing::Instrument;
use usher_core::{
    Event,
    base::id::ContainerKey,
    recipe::step::{Method, Request},
};
use usher_sys::pods::container::Init;

use super::{Attempts, Target, exchange, http};

const TIMEOUT: Duration = Duration::from_secs(1);
/// Envoy's `server_info` has some 10 kB.
const BODY_BYTES: usize = 256 * 1024;

impl Attempts {
    /// Starts a version query to a container that lived a moment ago.
    pub(crate) fn query_version(
        &self,
        key: ContainerKey,
        init: Option<Arc<Init>>,
        in_pod_netns: bool,
        port: u16,
        path: String,
    ) {
        let host = Arc::clone(&self.host);
        let events = self.events.clone();
        let query = async move {
            let body = match init {
                None => None,
                Some(init) => {
                    let target = Target {
                        host: &host,
                        key: &key,
                        init: &init,
                        in_pod_netns,
                    };
                    target.body(port, &path).await
                }
            };
            drop(events.send(Event::VersionAnswered { key, body }).await);
        };
        tokio::spawn(query.in_current_span());
    }
}

impl Target<'_> {
    /// The body of a successful response.
    async fn body(self, port: u16, path: &str) -> Option<String> {
        let request = Request {
            method: Method::Get,
            port,
            path: path.to_owned(),
            headers: Vec::new(),
        };
        let read = |response: Response<Incoming>| async {
            if !response.status().is_success() {
                return None;
            }
            let body = Limited::new(response.into_body(), BODY_BYTES)
                .collect()
                .await;
            String::from_utf8(body.ok()?.to_bytes().into()).ok()
        };
        let query = async {
            let stream = self.connect(None, port).await.ok()?;
            let message = http::message(&request, Vec::new()).ok()?;
            exchange(stream, message, read).await.ok()?
        };
        tokio::time::timeout(TIMEOUT, query).await.ok().flatten()
    }
}
