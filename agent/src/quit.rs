//! Attempts to make a sidecar quit, and questions to it.
//!
//! Everything that names the sidecar is checked again right before: its init
//! process must be alive by pidfd, and the network namespace must be the one
//! that the container was started in, and not the host's.

mod environment;
mod http_exchange;
mod loopback;

use std::{io, time::Duration};

use nix::sys::signal;
use tokio::net::TcpStream;
use usher_client::{crash_point, error_chain::chain};
use usher_core::{
    base::id::{ContainerKey, NetnsId},
    quit::outcome::Outcome,
    recipe::step::{Method, Request, Signal, Step},
};
use usher_sys::pods::{
    container::{self, Init},
    pidfd::Pidfd,
    proc::ProcRoot,
};

use self::loopback::{connect, nobody_listens, open, places};
pub(crate) use self::{
    environment::Reads,
    loopback::{Socket, prepare},
};

/// How long a question for a version may take.
const QUESTION: Duration = Duration::from_secs(1);

/// Sends a request over a connection and says what came of it.
pub(crate) async fn ask(stream: TcpStream, request: &Request) -> Outcome {
    http_exchange::outcome(stream, request, Vec::new()).await
}

/// What attempts need to know of the host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) proc: ProcRoot,
    /// The host's own network namespace: never a pod's.
    pub(crate) netns: NetnsId,
    pub(crate) reads: Reads,
}

/// The sidecar that something is tried with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'init> {
    pub(crate) host: &'init Host,
    pub(crate) key: &'init ContainerKey,
    pub(crate) init: &'init Init,
    /// The pod's other containers are in the same network namespace.
    pub(crate) at_home: bool,
}

impl Target<'_> {
    /// Tries a step.
    pub(crate) async fn attempt(
        self,
        prepared: Option<Socket>,
        step: &Step,
        limit: Duration,
    ) -> Outcome {
        match step {
            Step::Signal {
                signal,
                process: None,
            } => send(&self.init.pidfd, *signal),
            Step::Signal {
                signal,
                process: Some(name),
            } => self.signal_named(*signal, name),
            Step::Request(request) => {
                let request = self.request(prepared, request);
                let answer = tokio::time::timeout(limit, request).await;
                answer.unwrap_or(Outcome::TimedOut)
            }
        }
    }

    /// Asks for something; the body of the answer if there is a good one.
    pub(crate) async fn question(self, port: u16, path: &str) -> Option<String> {
        let request = Request {
            method: Method::Get,
            port,
            path: path.to_owned(),
            headers: Vec::new(),
        };
        let ask = async {
            let stream = self.connect(None, port).await.ok()?;
            http_exchange::body(stream, &request).await
        };
        tokio::time::timeout(QUESTION, ask).await.ok().flatten()
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

    async fn request(self, prepared: Option<Socket>, request: &Request) -> Outcome {
        let headers = match self.headers(request).await {
            Ok(headers) => headers,
            Err(why) => return Outcome::Failed(why),
        };
        match self.connect(prepared, request.port).await {
            Ok(stream) => {
                crash_point::reach("request-due", "");
                let outcome = http_exchange::outcome(stream, request, headers).await;
                crash_point::reach("request-answered", "");
                outcome
            }
            Err(outcome) => outcome,
        }
    }

    /// Connects to the port on one of the loopback addresses.
    async fn connect(self, mut prepared: Option<Socket>, port: u16) -> Result<TcpStream, Outcome> {
        if !self.at_home {
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
                Err(error) if nobody_listens(&error) => {}
                Err(error) => return Err(Outcome::Failed(failed(error))),
            }
        }
        Err(Outcome::Refused)
    }

    /// Headers whose values stand in the environment of the sidecar's init
    /// process. They are shown to nobody but that process.
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
