//! Requests and signals to one sidecar, sent by the worker.
//!
//! Each request first checks that the init process is alive by pidfd. The agent has checked that the namespace is the
//! one that the container was started in, and not the host's.

use std::{
    future::Future,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http_body_util::{BodyExt, Empty};
use hyper::{
    Response,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    runtime::{Builder, Runtime},
};
use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    base::id::{ContainerKey, Pid},
    plan::version_query::{VersionRequest, reply::version_text},
    quit::outcome::Outcome,
    recipe::step::{Header, Method, Request, Signal},
    worker::message::QUERY,
};
use usher_sys::{
    net::netns::Netns,
    pods::{container, pidfd, proc::ProcRoot},
    process::pool::Pool,
};

use super::{http, loopback};
use crate::quit;

/// Envoy's `server_info` may have more than 64 KiB, most of it the list of its extensions.
const BODY_BYTES: usize = 256 * 1024;
/// The bodies of all pods that are read at the same time. Beyond this a version stays unknown until the next query.
const BODIES_BYTES: usize = 8 * 1024 * 1024;

static BODIES: AtomicUsize = AtomicUsize::new(0);

/// The runtimes of requests. With one for each thread, memory would depend on the highest number of threads.
static RUNTIMES: Pool<Runtime> = Pool::new(16);

/// A sidecar.
#[derive(Debug)]
pub(super) struct Target<'netns> {
    /// Of its init process.
    pub(super) pidfd: OwnedFd,
    pub(super) netns: &'netns Netns,
}

impl Target<'_> {
    /// Sends a request that is to terminate the sidecar.
    pub(super) fn attempt(
        &self,
        proc: &ProcRoot,
        pid: Pid,
        prepared: Option<OwnedFd>,
        request: &Request,
        timeout: Duration,
    ) -> Outcome {
        let sidecar = Some(self.pidfd.as_fd());
        let attempt = async {
            let headers = match self.headers(proc, pid, &request.headers) {
                Ok(headers) => headers,
                Err(why) => return Outcome::Failed(why),
            };
            let stream = match loopback::connect(self.netns, sidecar, prepared, request.port).await
            {
                Ok(stream) => stream,
                Err(outcome) => return outcome,
            };
            let Ok(message) = http::message(request, headers) else {
                // Without the error's own text, in which a value may be a secret.
                let why = "a header cannot be made of the variable's value";
                return Outcome::Failed(why.to_owned());
            };
            crash_point::reach("request-due", "");
            let status = exchange(stream, message, http::status).await;
            crash_point::reach("request-answered", "");
            http::outcome(status)
        };
        match block_on(timeout, attempt) {
            Ok(outcome) => outcome.unwrap_or(Outcome::TimedOut),
            Err(why) => Outcome::Failed(why),
        }
    }

    /// The text where a successful response has the version.
    pub(super) fn query(&self, version: &VersionRequest) -> Option<String> {
        let request = Request {
            method: Method::Get,
            port: version.port,
            path: version.path.clone(),
            headers: Vec::new(),
        };
        let read = |response: Response<Incoming>| async {
            if !response.status().is_success() {
                return None;
            }
            let body = Body::read(response.into_body()).await?;
            version_text(&body.0, &version.pointer)
        };
        let sidecar = Some(self.pidfd.as_fd());
        let query = async {
            let stream = loopback::connect(self.netns, sidecar, None, version.port)
                .await
                .ok()?;
            let message = http::message(&request, Vec::new()).ok()?;
            exchange(stream, message, read).await.ok()?
        };
        block_on(QUERY, query).ok().flatten().flatten()
    }

    /// Headers with values from the environment of the sidecar's init process, for that process only. The process can
    /// delay the read for any time ([userfaultfd(2)](https://man7.org/linux/man-pages/man2/userfaultfd.2.html)).
    fn headers(
        &self,
        proc: &ProcRoot,
        pid: Pid,
        wanted: &[Header],
    ) -> Result<Vec<(String, String)>, String> {
        let value = |header: &Header| match proc.variable(pid, &header.env) {
            Ok(value) => value.map(|value| Ok((header.name.clone(), value))),
            Err(error) => Some(Err(chain(&error))),
        };
        let headers = wanted.iter().filter_map(value).collect::<Result<_, _>>();
        // Checked after the read: if the sidecar is alive now, the values are its own.
        match wanted.is_empty() || pidfd::is_alive(self.pidfd.as_fd()) {
            true => headers,
            false => Ok(Vec::new()),
        }
    }
}

/// Signals the oldest process of this name in a container whose init process lives.
pub(super) fn signal(
    proc: &ProcRoot,
    init: &OwnedFd,
    key: &ContainerKey,
    cgroup: &Path,
    process: &str,
    signal: Signal,
) -> Outcome {
    if !pidfd::is_alive(init.as_fd()) {
        return Outcome::Gone;
    }
    let signalled = with_runtime(|runtime| {
        // Opening a pidfd registers it with the current runtime.
        let _entered = runtime.enter();
        match container::named_process(proc, key, cgroup, process) {
            Ok(Some(process)) => quit::signal(&process, signal),
            Ok(None) => Outcome::NoProcess,
            Err(error) => Outcome::Failed(chain(&error)),
        }
    });
    signalled.unwrap_or_else(Outcome::Failed)
}

/// Sends a readiness request to the listener of the port, on IPv4 first.
pub(super) fn is_ready(netns: &Netns, request: &Request, timeout: Duration) -> bool {
    let ready = async {
        let stream = loopback::connect(netns, None, None, request.port)
            .await
            .ok()?;
        let message = http::message(request, Vec::new()).ok()?;
        Some(http::outcome(exchange(stream, message, http::status).await))
    };
    block_on(timeout, ready) == Ok(Some(Some(Outcome::Accepted)))
}

/// Sends a request, and reads the response with `read`.
async fn exchange<T, Read: Future<Output = T>>(
    stream: TcpStream,
    message: hyper::Request<Empty<Bytes>>,
    read: impl FnOnce(Response<Incoming>) -> Read,
) -> Result<T, hyper::Error> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(http::HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    let response = async { Ok(read(sender.send_request(message).await?).await) };
    tokio::pin!(response);
    tokio::select! {
        biased;
        // Polling the connection moves the bytes, so it comes first: they may have arrived while the thread waited for a
        // processor. It may end before the response is processed.
        _closed = connection => response.await,
        response = &mut response => response,
    }
}

/// The body of a response, which counts towards [`BODIES_BYTES`] until it is dropped.
struct Body(Vec<u8>);

impl Body {
    /// None if it ends early, or exceeds a limit.
    async fn read(mut incoming: Incoming) -> Option<Self> {
        let mut body = Self(Vec::new());
        while let Some(frame) = incoming.frame().await {
            let Ok(data) = frame.ok()?.into_data() else {
                continue;
            };
            let all = BODIES.fetch_add(data.len(), Ordering::Relaxed) + data.len();
            body.0.extend_from_slice(&data);
            if body.0.len() > BODY_BYTES || all > BODIES_BYTES {
                return None;
            }
        }
        Some(body)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        BODIES.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// Runs a future on this thread; None at the time limit.
fn block_on<T>(limit: Duration, future: impl Future<Output = T>) -> Result<Option<T>, String> {
    with_runtime(|runtime| {
        runtime.block_on(async { tokio::time::timeout(limit, future).await.ok() })
    })
}

/// Creates a runtime before the first request, which an exit waits for.
pub(super) fn prepare() {
    // A failure is reported by the request, which tries again.
    drop(with_runtime(|_runtime| ()));
}

fn with_runtime<T>(run: impl FnOnce(&Runtime) -> T) -> Result<T, String> {
    let runtime = match RUNTIMES.take() {
        Some(runtime) => runtime,
        None => Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| format!("starting a runtime: {error}"))?,
    };
    let done = run(&runtime);
    RUNTIMES.put_back(runtime);
    Ok(done)
}

#[cfg(test)]
mod tests;
