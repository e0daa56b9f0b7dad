//! The agent's admin socket, from the other side.

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

use crate::failure::Failure;

/// How long the agent may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// An answer longer than this is not read.
const LARGEST: usize = 64 * 1024 * 1024;

/// An agent that answers at this socket. Each question has a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    path: PathBuf,
}

impl Client {
    /// Looks whether an agent answers.
    ///
    /// # Errors
    /// [`Failure`]: absent where none does, refused where it is not for us.
    pub(crate) async fn connect(path: &Path) -> Result<Self, Failure> {
        let client = Self {
            path: path.to_owned(),
        };
        client.open().await?;
        Ok(client)
    }

    /// Asks for something.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let body = self.text(Method::GET, path, Bytes::new()).await?;
        self.decode(&body)
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// [`Failure`]; refused with the agent's own words where it does not.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        order: &impl Serialize,
    ) -> Result<T, Failure> {
        let body =
            serde_json::to_vec(order).map_err(|error| Failure::unavailable(error.to_string()))?;
        let body = self.text(method, path, body.into()).await?;
        self.decode(&body)
    }

    /// An answer as it is.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) async fn text(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let asked = tokio::time::timeout(TIMEOUT, async {
            let answer = self.ask(method, path, body).await?;
            let read = Limited::new(answer, LARGEST).collect().await;
            let read = read.map(http_body_util::Collected::to_bytes);
            read.map_err(|error| self.broken(&error.to_string()))
        });
        let late = |_late| self.broken(&format!("no answer within {TIMEOUT:?}"));
        asked.await.map_err(late)?
    }

    /// An answer that goes on, such as a watch: its body.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) async fn stream(&self, path: &str) -> Result<Incoming, Failure> {
        let late = |_late| self.broken(&format!("no answer within {TIMEOUT:?}"));
        let asked = self.ask(Method::GET, path, Bytes::new());
        tokio::time::timeout(TIMEOUT, asked).await.map_err(late)?
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Incoming, Failure> {
        let broken = |error: hyper::Error| self.broken(&error.to_string());
        let io = TokioIo::new(self.open().await?);
        let (mut sender, connection) = http1::handshake(io).await.map_err(broken)?;
        // Ends with the answer, or with this program.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "usher")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body));
        let request = request.map_err(|error| self.broken(&error.to_string()))?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = body
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let words = String::from_utf8_lossy(&body).trim().to_owned();
        Err(match status {
            StatusCode::SERVICE_UNAVAILABLE => self.broken(&words),
            StatusCode::NOT_FOUND if words.is_empty() => {
                self.broken("it is of another version and does not know this question")
            }
            _ => Failure::refused(format!("the agent says no: {words}")),
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
                    Failure::refused(format!("{path}: permission denied; to be run as root"))
                }
                _ => Failure::unavailable(format!("cannot ask the agent at {path}: {error}")),
            })
    }

    fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Failure> {
        serde_json::from_slice(body).map_err(|error| {
            self.broken(&format!(
                "its answer is not understood, is it of another version? ({error})"
            ))
        })
    }

    fn broken(&self, why: &str) -> Failure {
        Failure::unavailable(format!("the agent at {}: {why}", self.path.display()))
    }
}
