//! Client of the agent's admin socket.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use tokio::net::UnixStream;
use usher_core::admin::{Document, LONGEST_BUSY};

use crate::failure::Failure;

/// How long the agent may take to respond.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a request with a body: an operator's request may wait for its pod.
const ORDER_TIMEOUT: Duration = LONGEST_BUSY.saturating_add(Duration::from_secs(3));
/// Limit of a response.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// An agent that answers at this socket. Each request has its own connection.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    path: PathBuf,
}

impl Client {
    /// Checks that an agent answers.
    ///
    /// # Errors
    /// Unavailable without an agent, refused without permission.
    pub(crate) async fn connect(path: &Path) -> Result<Self, Failure> {
        let client = Self {
            path: path.to_owned(),
        };
        client.open().await?;
        Ok(client)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.decode(&self.text(Method::GET, path).await?)
    }

    /// Sends a request with a JSON body.
    ///
    /// # Errors
    /// When there is no valid response, or the agent refuses; then with its reason.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        request: &impl Serialize,
    ) -> Result<T, Failure> {
        let body =
            serde_json::to_vec(request).map_err(|error| Failure::unavailable(error.to_string()))?;
        let body = self
            .exchange(method, path, body.into(), ORDER_TIMEOUT)
            .await?;
        self.decode(&body)
    }

    /// Sends a request without a body and returns the response unparsed.
    pub(crate) async fn text(&self, method: Method, path: &str) -> Result<Bytes, Failure> {
        self.exchange(method, path, Bytes::new(), TIMEOUT).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        longest: Duration,
    ) -> Result<Bytes, Failure> {
        let response = tokio::time::timeout(longest, async {
            let body = self.request(method, path, body).await?;
            Limited::new(body, MAX_BODY)
                .collect()
                .await
                .map(http_body_util::Collected::to_bytes)
                .map_err(|error| self.broken(&error.to_string()))
        });
        let late = |_elapsed| self.broken(&format!("no response within {longest:?}"));
        response.await.map_err(late)?
    }

    /// The body of a response that does not end, such as a watch.
    pub(crate) async fn stream(&self, path: &str) -> Result<Incoming, Failure> {
        let late = |_elapsed| self.broken(&format!("no response within {TIMEOUT:?}"));
        let response = self.request(Method::GET, path, Bytes::new());
        tokio::time::timeout(TIMEOUT, response)
            .await
            .map_err(late)?
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Incoming, Failure> {
        let broken = |error: hyper::Error| self.broken(&error.to_string());
        let io = TokioIo::new(self.open().await?);
        let (mut sender, connection) = http1::handshake(io).await.map_err(broken)?;
        // The task ends with the response, or with this program.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "usher")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| self.broken(&error.to_string()))?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), MAX_BODY)
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let reason = String::from_utf8_lossy(&body).trim().to_owned();
        Err(match status {
            StatusCode::SERVICE_UNAVAILABLE => self.broken(&reason),
            StatusCode::NOT_FOUND if reason.is_empty() => {
                self.broken("unknown request; the agent may be of another version")
            }
            _ => Failure::refused(format!("refused by the agent: {reason}")),
        })
    }

    async fn open(&self) -> Result<UnixStream, Failure> {
        let path = self.path.display();
        UnixStream::connect(&self.path)
            .await
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    Failure::unavailable(format!("no agent answers at {path}"))
                }
                io::ErrorKind::PermissionDenied => {
                    Failure::refused(format!("{path}: permission denied; run as root"))
                }
                _ => {
                    Failure::unavailable(format!("cannot connect to the agent at {path}: {error}"))
                }
            })
    }

    /// The data of a response, which is a [`Document`].
    pub(crate) fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Failure> {
        let document: Document<T> = serde_json::from_slice(body).map_err(|error| {
            self.broken(&format!(
                "invalid response, the agent may be of another version: {error}"
            ))
        })?;
        Ok(document.data)
    }

    fn broken(&self, why: &str) -> Failure {
        Failure::unavailable(format!("the agent at {}: {why}", self.path.display()))
    }
}
