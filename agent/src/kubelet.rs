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
    podlist::{self, NotAPodList, PodList},
    recipe::Reads,
};

use crate::{args::Args, metrics::Metrics, telemetry::chain};

/// How long a request may take, connection and answer included.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A list longer than this is not read: some thousand pods of a hundred kB.
const LARGEST: usize = 256 * 1024 * 1024;
const PATH: &str = "/pods";

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
    fn kind(&self) -> &'static str {
        match self {
            Self::Token { .. } => "token",
            Self::Tls { .. } => "tls",
            Self::Connect { .. } | Self::Http { .. } => "connect",
            Self::Timeout { .. } => "timeout",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Forbidden { .. } => "forbidden",
            Self::Status { .. } => "server_error",
            Self::Body { .. } | Self::Decode { .. } => "decode",
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
    /// What went wrong with the last request.
    failing: Option<&'static str>,
}

impl Kubelet {
    pub(crate) fn new(args: &Args, metrics: Arc<Metrics>) -> Result<Self, BadSetting> {
        let url = args.kubelet.clone();
        let Some(host) = url.host() else {
            return Err(BadSetting::NoHost(url));
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let trust = match url.scheme_str() {
            Some("http") if loopback => None,
            Some("http") => return Err(BadSetting::PlainText(url)),
            Some("https") => Some(tls::Trust {
                ca: args.kubelet_ca.clone(),
                pinned: args.kubelet_cert.clone(),
            }),
            _ => return Err(BadSetting::Scheme(url)),
        };
        Ok(Self {
            port: url.port_u16().unwrap_or(10250),
            host,
            trust,
            token: args.kubelet_token.clone(),
            metrics,
            url,
            failing: None,
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
                self.metrics.kubelet_request("ok");
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
                self.metrics.kubelet_request(kind);
                let text = chain(&error);
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

    async fn ask(&self, reads: &Reads) -> Result<PodList, Error> {
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
        let body = match &self.trust {
            None => self.exchange(TokioIo::new(stream), &token).await?,
            Some(trust) => {
                let connector = trust.connector();
                let connector = connector.map_err(|source| Error::Tls { url: url(), source })?;
                let name = tls::server_name(&self.host);
                let name = name.map_err(|source| Error::Tls { url: url(), source })?;
                let stream = connector
                    .connect(name, stream)
                    .await
                    .map_err(|source| Error::Connect { url: url(), source })?;
                self.exchange(TokioIo::new(stream), &token).await?
            }
        };
        podlist::parse(&body, reads).map_err(|source| Error::Decode { url: url(), source })
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
