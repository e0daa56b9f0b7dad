//! Client of the kubelet's pods: `GET /pods` on its authenticated port, which needs the permission to get `nodes/pods`
//! only ([KEP-2862](https://github.com/kubernetes/enhancements/issues/2862)).
//!
//! Each request has a connection of its own: requests are rare, and the token, the CA and the kubelet's certificate may
//! have been rotated since the last one.

pub mod tls;

use std::{io, net::IpAddr, path::PathBuf, time::Duration};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1,
    header,
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use tokio::net::TcpStream;
use usher_core::{
    metric::value::KubeletResult,
    pod::list::{self, NotAPodList, PodList},
    recipe::Reads,
};

use crate::node_args::KubeletArgs;

/// How long a request may take, from the connection to the end of the response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The client rejects a longer list: some thousand pods of a hundred kB.
const LARGEST: usize = 256 * 1024 * 1024;
const PATH: &str = "/pods";

/// Why the kubelet's pods could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading the token {path:?}")]
    Token { path: PathBuf, source: io::Error },
    #[error("preparing TLS for {url}")]
    Tls { url: Uri, source: tls::Error },
    #[error("connecting to {url}")]
    Connect { url: Uri, source: io::Error },
    #[error("no response from {url} within {TIMEOUT:?}")]
    Timeout { url: Uri },
    #[error("requesting {url}")]
    Http { url: Uri, source: hyper::Error },
    #[error(
        "{url} rejected the token (status 401); check that the kubelet has webhook authentication and reaches the API server"
    )]
    Unauthorized { url: Uri },
    #[error(
        "{url} denied its pods (status 403); the agent needs the permission to get nodes/pods (nodes/proxy before Kubernetes 1.33)"
    )]
    Forbidden { url: Uri },
    #[error("{url} responded with status {status}")]
    Status { url: Uri, status: StatusCode },
    #[error("the response of {url} broke off or is longer than {LARGEST} bytes")]
    Body {
        url: Uri,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("decoding the response of {url}")]
    Decode { url: Uri, source: NotAPodList },
}

impl Error {
    /// The error's label in metrics.
    pub fn kind(&self) -> KubeletResult {
        match self {
            Self::Token { .. } => KubeletResult::Token,
            Self::Tls { .. } => KubeletResult::Tls,
            Self::Connect { .. } | Self::Http { .. } => KubeletResult::Connect,
            Self::Timeout { .. } => KubeletResult::Timeout,
            Self::Unauthorized { .. } => KubeletResult::Unauthorized,
            Self::Forbidden { .. } => KubeletResult::Forbidden,
            Self::Status { .. } => KubeletResult::ServerError,
            Self::Body { .. } | Self::Decode { .. } => KubeletResult::Decode,
        }
    }

    /// The fault of the kubelet's certificate, if that ended the handshake.
    pub fn certificate_fault(&self) -> Option<CertificateFault> {
        let Self::Connect { source, .. } = self else {
            return None;
        };
        match source.get_ref()?.downcast_ref()? {
            rustls::Error::InvalidCertificate(fault) => Some(fault.into()),
            _ => None,
        }
    }
}

/// A fault of the kubelet's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateFault {
    /// It is expired, or not valid yet.
    Time,
    /// It is for other names.
    Name,
    /// Its issuer is unknown, or another fault.
    Issuer,
}

impl From<&CertificateError> for CertificateFault {
    fn from(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Time,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::Name
            }
            _ => Self::Issuer,
        }
    }
}

/// Why the kubelet's URL is invalid.
#[derive(Debug, thiserror::Error)]
pub enum BadSetting {
    #[error("--kubelet {0} has no host")]
    NoHost(Uri),
    #[error("--kubelet {0}: http:// needs a loopback address, since it does not encrypt the token")]
    PlainText(Uri),
    #[error("--kubelet {0} has neither http:// nor https://")]
    Scheme(Uri),
}

/// A client of this node's kubelet.
#[derive(Debug)]
pub struct Kubelet {
    url: Uri,
    host: String,
    port: u16,
    trust: Option<tls::Trust>,
    token: PathBuf,
}

impl Kubelet {
    /// Does no IO.
    ///
    /// # Errors
    /// When the URL is invalid.
    pub fn new(args: &KubeletArgs) -> Result<Self, BadSetting> {
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
            url,
        })
    }

    /// Lists the pods, with the fields that `reads` names.
    ///
    /// # Errors
    /// When the kubelet does not respond with a list of pods.
    pub async fn pods(&self, reads: &Reads) -> Result<PodList, Error> {
        let url = self.url.clone();
        let list = tokio::time::timeout(TIMEOUT, self.parsed(reads)).await;
        list.unwrap_or(Err(Error::Timeout { url }))
    }

    async fn parsed(&self, reads: &Reads) -> Result<PodList, Error> {
        let body = self.body().await?;
        list::parse(&body, reads).map_err(|source| Error::Decode {
            url: self.url.clone(),
            source,
        })
    }

    /// Lists the pods as the kubelet encodes them.
    ///
    /// # Errors
    /// When the kubelet does not respond with status 200.
    pub async fn raw(&self) -> Result<Bytes, Error> {
        let url = self.url.clone();
        let response = tokio::time::timeout(TIMEOUT, self.body()).await;
        response.unwrap_or(Err(Error::Timeout { url }))
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
        let response = async {
            let response = sender.send_request(request).await.map_err(failed)?;
            let url = self.url.clone();
            match response.status() {
                StatusCode::OK => {}
                StatusCode::UNAUTHORIZED => return Err(Error::Unauthorized { url }),
                StatusCode::FORBIDDEN => return Err(Error::Forbidden { url }),
                status => return Err(Error::Status { url, status }),
            }
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            body.map(http_body_util::Collected::to_bytes)
                .map_err(|source| Error::Body { url, source })
        };
        tokio::pin!(response);
        tokio::select! {
            biased;
            response = &mut response => response,
            // Polling the connection moves the bytes. It may end before the response's last bytes are processed.
            _closed = connection => response.await,
        }
    }
}
