//! Client of the kubelet's pods: `GET /pods` on its authenticated port, which needs the permission to get `nodes/pods`
//! only ([KEP-2862](https://github.com/kubernetes/enhancements/issues/2862)).
//!
//! Each request has its own connection: requests are rare, and the token, the CA and the kubelet's certificate may have
//! been rotated since the last one.
//!
//! The list is parsed while it arrives ([`usher_core::pod::list`]), so its length does not affect memory. A list that
//! is endless, stalls or takes too long is an error.

mod error;
pub mod tls;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, StatusCode, Uri,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};
use usher_core::pod::list::{PodList, Reader, Selection};

use self::error::certificate_fault;
pub use self::error::{BadSetting, CertificateFault, Error};
use crate::node_args::{Certificate, KubeletArgs};

const BOUNDS: Bounds = Bounds {
    response: Duration::from_secs(10),
    stall: Duration::from_secs(5),
    total: Duration::from_secs(120),
    bytes: 1024 * 1024 * 1024,
};
const PATH: &str = "/pods";

/// A client of this node's kubelet.
#[derive(Debug)]
pub struct Kubelet {
    url: Uri,
    host: String,
    port: u16,
    trust: Option<tls::Trust>,
    token: PathBuf,
    bounds: Bounds,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Timeout of the response's head, before which the kubelet encodes the whole list.
    response: Duration,
    /// Timeout without a byte of the list.
    stall: Duration,
    /// Timeout of the complete list.
    total: Duration,
    /// Length of the list: more than all pods of a cluster. The API server deletes finished pods beyond 12,500.
    bytes: u64,
}

impl Kubelet {
    /// Requires `CAP_SYS_PTRACE` to read the kubelet's certificate from the host's disk ([`tls::HostFile`]). Requests
    /// need no capability.
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
                pinned: match &args.certificate {
                    Certificate::Auto => {
                        let file = tls::HostFile::start(args.host_root.clone());
                        tls::Pinned::Host(file.map_err(BadSetting::Thread)?)
                    }
                    Certificate::None => tls::Pinned::None,
                    Certificate::File(path) => tls::Pinned::File(path.clone()),
                },
            }),
            _ => return Err(BadSetting::Scheme(url)),
        };
        Ok(Self {
            port: url.port_u16().unwrap_or(10250),
            host,
            trust,
            token: args.token.clone(),
            url,
            bounds: BOUNDS,
        })
    }

    /// Lists the pods, and keeps those that `selection` matches.
    pub async fn pods(&self, selection: Selection) -> Result<PodList, Error> {
        let after = self.bounds.total;
        match timeout(after, Box::pin(self.list(selection))).await {
            Ok(list) => list,
            Err(_elapsed) => Err(Error::TooSlow {
                url: self.url.clone(),
                after,
            }),
        }
    }

    async fn list(&self, selection: Selection) -> Result<PodList, Error> {
        let url = || self.url.clone();
        let token = std::fs::read_to_string(&self.token).map_err(|source| Error::Token {
            path: self.token.clone(),
            source,
        })?;
        let stream = self.in_time(self.connect()).await?;
        let Some(trust) = &self.trust else {
            return self.exchange(TokioIo::new(stream), &token, selection).await;
        };
        let tls = |source| Error::Tls { url: url(), source };
        let connector = trust.connector().map_err(tls)?;
        let name = tls::server_name(&self.host).map_err(tls)?;
        let handshake = async {
            let stream = connector.connect(name, stream).await;
            stream.map_err(|source| match certificate_fault(&source) {
                Some(_) => Error::Untrusted {
                    url: url(),
                    trust: trust.description(),
                    source,
                },
                None => Error::Connect { url: url(), source },
            })
        };
        let stream = self.in_time(handshake).await?;
        self.exchange(TokioIo::new(stream), &token, selection).await
    }

    /// Limits the time of a step before the list.
    async fn in_time<T>(&self, step: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let after = self.bounds.response;
        match timeout(after, step).await {
            Ok(done) => done,
            Err(_elapsed) => Err(Error::Timeout {
                url: self.url.clone(),
                after,
            }),
        }
    }

    async fn connect(&self) -> Result<TcpStream, Error> {
        let connect = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        connect.await.map_err(|source| Error::Connect {
            url: self.url.clone(),
            source,
        })
    }

    async fn exchange<Io>(
        &self,
        io: Io,
        token: &str,
        selection: Selection,
    ) -> Result<PodList, Error>
    where
        Io: Read + Write + Unpin,
    {
        let failed = |source| Error::Http {
            url: self.url.clone(),
            source,
        };
        let (mut sender, connection) = http1::handshake(io).await.map_err(failed)?;
        let request = self.request(token);
        let response = async {
            let head = async { sender.send_request(request).await.map_err(failed) };
            let response = self.in_time(head).await?;
            let url = self.url.clone();
            match response.status() {
                StatusCode::OK => self.read(response.into_body(), selection).await,
                StatusCode::UNAUTHORIZED => Err(Error::Unauthorized { url }),
                StatusCode::FORBIDDEN => Err(Error::Forbidden { url }),
                status => Err(Error::Status { url, status }),
            }
        };
        tokio::pin!(response);
        tokio::select! {
            biased;
            // Polling the connection moves the bytes, so it comes first: a timeout would hide those that arrived while the
            // process waited for a processor. It may end before the last bytes of the response are processed.
            _closed = connection => response.await,
            response = &mut response => response,
        }
    }

    fn request(&self, token: &str) -> Request<Empty<Bytes>> {
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
        request
    }

    /// Parses the list while it arrives.
    async fn read(&self, mut body: Incoming, selection: Selection) -> Result<PodList, Error> {
        let url = || self.url.clone();
        let Bounds { stall, bytes, .. } = self.bounds;
        let mut reader = Reader::new(selection);
        let mut left = bytes;
        loop {
            let frame = timeout(stall, body.frame()).await;
            let frame = frame.map_err(|_elapsed| Error::Stalled {
                url: url(),
                after: stall,
            })?;
            let Some(frame) = frame else {
                break;
            };
            let frame = frame.map_err(|source| Error::Body { url: url(), source })?;
            let data = frame.data_ref().map_or(&[][..], |data| &data[..]);
            left = left
                .checked_sub(data.len() as u64)
                .ok_or_else(|| Error::TooLong {
                    url: url(),
                    limit: bytes,
                })?;
            let read = reader.read(data);
            read.map_err(|source| Error::Decode { url: url(), source })?;
            // Data may arrive faster than it is parsed, so let the other tasks of the thread run.
            tokio::task::yield_now().await;
        }
        let list = reader.finish();
        list.map_err(|source| Error::Decode { url: url(), source })
    }
}

#[cfg(test)]
mod tests;
