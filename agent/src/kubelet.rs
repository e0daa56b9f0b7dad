//! The kubelet's pods: `GET /pods` on its authenticated port, with the right
//! `nodes/pods` only
//! ([KEP-2862](https://github.com/kubernetes/enhancements/issues/2862)).
//!
//! One connection for each request: requests are seldom, and the token, the CA
//! and the kubelet's certificate may have been rotated since the last one.

mod tls;

use std::{
    io,
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1,
    header,
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use usher_core::{
    metric::value::{Listed, Value},
    notice::NodeCondition,
    podlist::{self, NotAPodList, PodList},
    recipe::Reads,
};

use crate::{args::node::KubeletArgs, events::Teller, metrics::Metrics, telemetry::chain};

/// How long a request may take, connection and answer included.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A list longer than this is not read: some thousand pods of a hundred kB.
const LARGEST: usize = 256 * 1024 * 1024;
const PATH: &str = "/pods";
/// A kubelet that is away for longer is worth an Event.
const RESTART: Duration = Duration::from_secs(60);

/// A list could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("reading the token {path:?}")]
    Token { path: PathBuf, source: io::Error },
    #[error("preparing TLS for {url}")]
    Tls { url: Uri, source: tls::Error },
    #[error("connecting to {url}")]
    Connect { url: Uri, source: io::Error },
    #[error("no answer from {url} within {TIMEOUT:?}")]
    Timeout { url: Uri },
    #[error("asking {url}")]
    Http { url: Uri, source: hyper::Error },
    #[error(
        "{url} does not take our token (status 401); is webhook authentication on, and the API server there?"
    )]
    Unauthorized { url: Uri },
    #[error(
        "{url} does not give us its pods (status 403); the agent needs the right to get nodes/pods (nodes/proxy before Kubernetes 1.33)"
    )]
    Forbidden { url: Uri },
    #[error("{url} answered with status {status}")]
    Status { url: Uri, status: StatusCode },
    #[error("the answer of {url} broke off or is longer than {LARGEST} bytes")]
    Body {
        url: Uri,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("reading the answer of {url}")]
    Decode { url: Uri, source: NotAPodList },
}

impl Error {
    /// What went wrong, for metrics.
    pub(crate) fn kind(&self) -> Listed {
        match self {
            Self::Token { .. } => Listed::Token,
            Self::Tls { .. } => Listed::Tls,
            Self::Connect { .. } | Self::Http { .. } => Listed::Connect,
            Self::Timeout { .. } => Listed::Timeout,
            Self::Unauthorized { .. } => Listed::Unauthorized,
            Self::Forbidden { .. } => Listed::Forbidden,
            Self::Status { .. } => Listed::ServerError,
            Self::Body { .. } | Self::Decode { .. } => Listed::Decode,
        }
    }
}

/// A setting about the kubelet cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadSetting {
    #[error("--kubelet {0} has no host")]
    NoHost(Uri),
    #[error(
        "--kubelet {0}: http:// is taken for loopback addresses only, since the token would be readable on the way"
    )]
    PlainText(Uri),
    #[error("--kubelet {0}: neither http:// nor https://")]
    Scheme(Uri),
}

/// The kubelet of this node.
#[derive(Debug)]
pub(crate) struct Kubelet {
    url: Uri,
    host: String,
    port: u16,
    trust: Option<tls::Trust>,
    token: PathBuf,
    metrics: Arc<Metrics>,
    teller: Teller,
    /// What went wrong with the last request.
    failing: Option<&'static str>,
    /// Since when something has, and whether that was told.
    failing_since: Option<(Instant, bool)>,
}

impl Kubelet {
    pub(crate) fn new(
        args: &KubeletArgs,
        metrics: Arc<Metrics>,
        teller: Teller,
    ) -> Result<Self, BadSetting> {
        let url = args.url.clone();
        let Some(host) = url.host() else {
            return Err(BadSetting::NoHost(url));
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let trust = match url.scheme_str() {
            Some("http") if loopback => None,
            Some("http") => return Err(BadSetting::PlainText(url)),
            Some("https") => Some(tls::Trust {
                ca: args.ca.clone(),
                pinned: args.certificate.clone(),
            }),
            _ => return Err(BadSetting::Scheme(url)),
        };
        Ok(Self {
            port: url.port_u16().unwrap_or(10250),
            host,
            trust,
            token: args.token.clone(),
            metrics,
            url,
            teller,
            failing: None,
            failing_since: None,
        })
    }

    /// Asks for the pods, and keeps what `reads` names of them. What goes wrong is logged and counted here.
    pub(crate) async fn pods(&mut self, reads: &Reads) -> Option<PodList> {
        let begin = Instant::now();
        let answer = tokio::time::timeout(TIMEOUT, self.ask(reads)).await;
        let took = begin.elapsed();
        self.metrics.kubelet_request.observe(took.as_secs_f64());
        let url = self.url.clone();
        let answer = answer.unwrap_or(Err(Error::Timeout { url }));
        match answer {
            Ok(list) => {
                self.failing_since = None;
                self.metrics.vitals.listed(None);
                self.metrics.kubelet_requests.inc(&Listed::Ok);
                for bad in &list.bad {
                    self.metrics.kubelet_bad_pods.inc();
                    tracing::warn!(error = %chain(bad), "left a pod of the kubelet's list out");
                }
                let pods = list.pods.len();
                match self.failing.take() {
                    Some(kind) => tracing::info!(pods, kind, "listed the kubelet's pods again"),
                    None => tracing::debug!(pods, ?took, "listed the kubelet's pods"),
                }
                Some(list)
            }
            Err(error) => {
                let kind = error.kind();
                self.metrics.kubelet_requests.inc(&kind);
                let kind = kind.name();
                let text = chain(&error);
                self.metrics.vitals.listed(Some(&text));
                self.tell(begin, &text);
                // Said once, and again when something else is wrong.
                if self.failing.replace(kind) == Some(kind) {
                    tracing::debug!(
                        error = text,
                        kind,
                        "still could not list the kubelet's pods"
                    );
                } else {
                    tracing::warn!(
                        error = text,
                        kind,
                        "could not list the kubelet's pods; trying again, and going on with what is known"
                    );
                }
                None
            }
        }
    }

    fn tell(&mut self, now: Instant, error: &str) {
        let (since, told) = self.failing_since.get_or_insert((now, false));
        if !*told && now >= *since + RESTART {
            *told = true;
            let condition = NodeCondition::KubeletUnreachable(error.to_owned());
            self.teller.node(&condition);
        }
    }

    async fn ask(&self, reads: &Reads) -> Result<PodList, Error> {
        let body = self.body().await?;
        podlist::parse(&body, reads).map_err(|source| Error::Decode {
            url: self.url.clone(),
            source,
        })
    }

    /// The list as the kubelet writes it.
    pub(crate) async fn raw(&self) -> Result<Bytes, Error> {
        let url = self.url.clone();
        let answer = tokio::time::timeout(TIMEOUT, self.body()).await;
        answer.unwrap_or(Err(Error::Timeout { url }))
    }

    async fn body(&self) -> Result<Bytes, Error> {
        let url = || self.url.clone();
        let token = std::fs::read_to_string(&self.token).map_err(|source| Error::Token {
            path: self.token.clone(),
            source,
        })?;
        let connect = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = connect
            .await
            .map_err(|source| Error::Connect { url: url(), source })?;
        match &self.trust {
            None => self.exchange(TokioIo::new(stream), &token).await,
            Some(trust) => {
                let connector = trust.connector();
                let connector = connector.map_err(|source| Error::Tls { url: url(), source })?;
                let name = tls::server_name(&self.host);
                let name = name.map_err(|source| Error::Tls { url: url(), source })?;
                let stream = connector
                    .connect(name, stream)
                    .await
                    .map_err(|source| Error::Connect { url: url(), source })?;
                self.exchange(TokioIo::new(stream), &token).await
            }
        }
    }

    async fn exchange<Io>(&self, io: Io, token: &str) -> Result<Bytes, Error>
    where
        Io: Read + Write + Unpin,
    {
        let failed = |source| Error::Http {
            url: self.url.clone(),
            source,
        };
        let (mut sender, connection) = http1::handshake(io).await.map_err(failed)?;
        let mut request = Request::get(PATH)
            .body(Empty::<Bytes>::new())
            .unwrap_or_default();
        let headers = request.headers_mut();
        if let Ok(host) = self.host.parse() {
            headers.insert(header::HOST, host);
        }
        if let Ok(bearer) = format!("Bearer {}", token.trim()).parse() {
            headers.insert(header::AUTHORIZATION, bearer);
        }
        let answer = async {
            let answer = sender.send_request(request).await.map_err(failed)?;
            let url = self.url.clone();
            match answer.status() {
                StatusCode::OK => {}
                StatusCode::UNAUTHORIZED => return Err(Error::Unauthorized { url }),
                StatusCode::FORBIDDEN => return Err(Error::Forbidden { url }),
                status => return Err(Error::Status { url, status }),
            }
            let body = Limited::new(answer.into_body(), LARGEST).collect().await;
            body.map(http_body_util::Collected::to_bytes)
                .map_err(|source| Error::Body { url, source })
        };
        tokio::pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            // The connection is polled beside it, and may end before the last
            // bytes have been looked at.
            _closed = connection => answer.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use usher_core::notice::Reason;

    use super::*;
    use crate::{args::Args, events::Events};

    #[test]
    fn one_that_stays_away_is_told_once() {
        let args = Args::parse_from(["usher-agent", "--node-name", "node-1"]);
        let args = args.node.kubelet;
        let metrics = Arc::new(Metrics::new());
        let (teller, mut events) = Events::new("node-1", Arc::clone(&metrics));
        let mut kubelet = Kubelet::new(&args, metrics, teller).unwrap();
        let now = Instant::now();
        kubelet.tell(now, "refused");
        kubelet.tell(now + RESTART / 2, "refused");
        assert_eq!(events.reasons(), []);
        kubelet.tell(now + RESTART, "refused");
        kubelet.tell(now + RESTART * 2, "refused");
        assert_eq!(events.reasons(), [Reason::KubeletUnreachable]);
    }
}
