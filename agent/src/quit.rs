//! Attempts to terminate a sidecar, and version queries.
//!
//! Everything that names the sidecar is checked again right before the attempt: its init
//! process must be alive by pidfd, and the network namespace must be the one
//! that the container was started in, and not the host's.

mod environment;
mod http;
mod loopback;
mod version_query;

use std::{io, sync::Arc, time::Duration};

use http_body_util::Empty;
use hyper::{
    Response,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use nix::sys::signal;
use tokio::{
    net::TcpStream,
    sync::{Semaphore, mpsc},
};
use tracing::Instrument;
use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    Event,
    base::id::{ContainerKey, NetnsId},
    metric::value::Value,
    quit::outcome::Outcome,
    recipe::step::{Request, Signal, Step},
};
use usher_sys::pods::{
    container::{self, Init},
    pidfd::Pidfd,
    proc::ProcRoot,
};

use self::loopback::{connect, is_refused, open, places};
pub(crate) use self::{
    environment::Reads,
    loopback::{Socket, prepare},
};

/// Attempts at the same time: each is a socket and a few kB. More wait.
pub(crate) const MAX_ATTEMPTS: usize = 256;

/// What attempts need to know of the host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) proc: ProcRoot,
    /// The host's own network namespace: never a pod's.
    pub(crate) netns: NetnsId,
    pub(crate) reads: Reads,
}

/// Runs attempts and version queries in tasks, which send their results as events.
#[derive(Debug)]
pub(crate) struct Attempts {
    host: Arc<Host>,
    permits: Arc<Semaphore>,
    events: mpsc::Sender<Event>,
}

/// A sidecar that lives, for an attempt.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) init: Arc<Init>,
    /// The socket that was prepared for its first request.
    pub(crate) socket: Option<Socket>,
    /// The pod's other containers are in the same network namespace.
    pub(crate) in_pod_netns: bool,
}

/// The target of an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'init> {
    pub(crate) host: &'init Host,
    pub(crate) key: &'init ContainerKey,
    pub(crate) init: &'init Init,
    /// The pod's other containers are in the same network namespace.
    pub(crate) in_pod_netns: bool,
}

impl Attempts {
    pub(crate) fn new(host: Arc<Host>, events: mpsc::Sender<Event>) -> Self {
        Self {
            host,
            permits: Arc::new(Semaphore::new(MAX_ATTEMPTS)),
            events,
        }
    }

    /// Starts an attempt with a sidecar; None when it does not live any more.
    pub(crate) fn start(
        &self,
        key: ContainerKey,
        sidecar: Option<Sidecar>,
        step: Step,
        timeout: Duration,
    ) {
        let host = Arc::clone(&self.host);
        let permits = Arc::clone(&self.permits);
        let events = self.events.clone();
        let attempt = async move {
            let outcome = match sidecar {
                None => Outcome::Gone,
                Some(sidecar) => {
                    // Never closed.
                    let _permit = permits.acquire().await;
                    let target = Target {
                        host: &host,
                        key: &key,
                        init: &sidecar.init,
                        in_pod_netns: sidecar.in_pod_netns,
                    };
                    target.attempt(sidecar.socket, &step, timeout).await
                }
            };
            tracing::debug!(container_id = %key.id, %step, outcome = outcome.name(), detail = detail(&outcome), "tried a step");
            // Fails only when the agent is ending.
            drop(events.send(Event::Attempted { key, outcome }).await);
        };
        tokio::spawn(attempt.in_current_span());
    }
}

impl Target<'_> {
    async fn attempt(self, prepared: Option<Socket>, step: &Step, timeout: Duration) -> Outcome {
        let request = match step {
            Step::Request(request) => request,
            Step::Signal {
                signal,
                process: None,
            } => return send(&self.init.pidfd, *signal),
            Step::Signal {
                signal,
                process: Some(name),
            } => return self.signal_named(*signal, name),
        };
        let attempt = async {
            let headers = match self.headers(request).await {
                Ok(headers) => headers,
                Err(why) => return Outcome::Failed(why),
            };
            let stream = match self.connect(prepared, request.port).await {
                Ok(stream) => stream,
                Err(outcome) => return outcome,
            };
            let Ok(message) = http::message(request, headers) else {
                // Not the error's own text: a value in it may be a secret.
                let why = "a header cannot be made of the variable's value";
                return Outcome::Failed(why.to_owned());
            };
            crash_point::reach("request-due", "");
            let status = exchange(stream, message, http::status).await;
            crash_point::reach("request-answered", "");
            http::outcome(status)
        };
        tokio::time::timeout(timeout, attempt)
            .await
            .unwrap_or(Outcome::TimedOut)
    }

    fn signal_named(self, signal: Signal, name: &str) -> Outcome {
        let Self {
            host, key, init, ..
        } = self;
        if !init.pidfd.is_alive() {
            return Outcome::Gone;
        }
        match container::named_process(&host.proc, key, &init.cgroup, name) {
            Ok(Some(process)) => send(&process, signal),
            Ok(None) => Outcome::NoProcess,
            Err(error) => Outcome::Failed(chain(&error)),
        }
    }

    /// Connects to the port on one of the loopback addresses.
    async fn connect(self, mut prepared: Option<Socket>, port: u16) -> Result<TcpStream, Outcome> {
        if !self.in_pod_netns {
            let why = "its pod's other containers are in another network namespace";
            return Err(Outcome::Failed(why.to_owned()));
        }
        for place in places() {
            if !self.init.pidfd.is_alive() {
                return Err(Outcome::Gone);
            }
            let socket = match prepared.take() {
                Some(socket) => socket,
                None => open(self, place)?,
            };
            let failed = |error: io::Error| format!("connecting to port {port}: {error}");
            match connect(socket, port).await {
                Ok(stream) => return Ok(stream),
                Err(error) if is_refused(&error) => {}
                Err(error) => return Err(Outcome::Failed(failed(error))),
            }
        }
        Err(Outcome::Refused)
    }

    /// Headers with values from the environment of the sidecar's init process. Only that process receives them.
    async fn headers(self, request: &Request) -> Result<Vec<(String, String)>, String> {
        let (reads, pid) = (&self.host.reads, self.init.pidfd.pid());
        let wanted = &request.headers;
        let mut headers = reads
            .headers(&self.host.proc, &self.key.pod, pid, wanted)
            .await?;
        // What was read was the sidecar's if it is alive by now.
        if !self.init.pidfd.is_alive() {
            headers.clear();
        }
        Ok(headers)
    }
}

/// Sends a request without a body over a connection.
pub(crate) async fn ask(stream: TcpStream, request: &Request) -> Outcome {
    match http::message(request, Vec::new()) {
        Ok(message) => http::outcome(exchange(stream, message, http::status).await),
        Err(error) => Outcome::Failed(chain(&error)),
    }
}

/// Sends a request, and reads of the response what `read` takes.
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
        response = &mut response => response,
        // Polling the connection is what moves the bytes; it may end with the
        // response in hand.
        _closed = connection => response.await,
    }
}

/// What the outcome's name does not include.
pub(crate) fn detail(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Rejected(status) => Some(format!("status {status}")),
        Outcome::Failed(why) => Some(why.clone()),
        _ => None,
    }
}

fn send(process: &Pidfd, signal: Signal) -> Outcome {
    let number = match signal {
        Signal::Term => signal::Signal::SIGTERM,
        Signal::Int => signal::Signal::SIGINT,
        Signal::Quit => signal::Signal::SIGQUIT,
        Signal::Hup => signal::Signal::SIGHUP,
        Signal::Usr1 => signal::Signal::SIGUSR1,
        Signal::Usr2 => signal::Signal::SIGUSR2,
        Signal::Kill => signal::Signal::SIGKILL,
    };
    match process.signal(number) {
        Ok(()) => {
            crash_point::reach("signalled", "");
            Outcome::Signalled
        }
        Err(gone) if gone.is_gone() => Outcome::Gone,
        Err(error) => Outcome::Failed(chain(&error)),
    }
}
