//! Errors of requests to the kubelet, and of the settings for them.

use std::{io, path::PathBuf, time::Duration};

use hyper::{StatusCode, Uri};
use rustls::CertificateError;
use usher_core::{metric::value::KubeletResult, pod::list::NotAPodList};

use super::tls;

/// Why the kubelet's pods could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading the token {path:?}")]
    Token { path: PathBuf, source: io::Error },
    #[error("preparing TLS for {url}")]
    Tls { url: Uri, source: tls::Error },
    #[error("connecting to {url}")]
    Connect { url: Uri, source: io::Error },
    #[error("the certificate of {url} is not verified by {trust}")]
    Untrusted {
        url: Uri,
        trust: String,
        source: io::Error,
    },
    #[error("no response from {url} within {after:?}")]
    Timeout { url: Uri, after: Duration },
    #[error("{url} stopped sending its list of pods for {after:?}")]
    Stalled { url: Uri, after: Duration },
    #[error("the list of pods of {url} took longer than {after:?}")]
    TooSlow { url: Uri, after: Duration },
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
    #[error("the response of {url} broke off")]
    Body { url: Uri, source: hyper::Error },
    #[error("the list of pods of {url} is longer than {limit} bytes")]
    TooLong { url: Uri, limit: u64 },
    #[error("decoding the response of {url}")]
    Decode { url: Uri, source: NotAPodList },
}

impl Error {
    /// The error's label in metrics.
    pub fn kind(&self) -> KubeletResult {
        match self {
            Self::Token { .. } => KubeletResult::Token,
            Self::Tls { .. } | Self::Untrusted { .. } => KubeletResult::Tls,
            Self::Connect { .. } | Self::Http { .. } => KubeletResult::Connect,
            Self::Timeout { .. } | Self::Stalled { .. } | Self::TooSlow { .. } => {
                KubeletResult::Timeout
            }
            Self::Unauthorized { .. } => KubeletResult::Unauthorized,
            Self::Forbidden { .. } => KubeletResult::Forbidden,
            Self::Status { .. } => KubeletResult::ServerError,
            Self::Body { .. } | Self::TooLong { .. } | Self::Decode { .. } => KubeletResult::Decode,
        }
    }

    /// The fault of the kubelet's certificate, if it ended the handshake.
    pub fn certificate_fault(&self) -> Option<CertificateFault> {
        match self {
            Self::Connect { source, .. } | Self::Untrusted { source, .. } => {
                certificate_fault(source)
            }
            _ => None,
        }
    }
}

pub(super) fn certificate_fault(error: &io::Error) -> Option<CertificateFault> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(fault) => Some(fault.into()),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateFault {
    /// The certificate has expired, or is not valid yet.
    Time,
    /// The certificate is for other names.
    Name,
    /// The certificate's issuer is unknown, or it has another fault.
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
    #[error("starting the thread that reads the kubelet's certificate")]
    Thread(#[source] io::Error),
}
