//! Verification of the kubelet's certificate.
//!
//! The cluster's CA signs the kubelet's serving certificate if that is configured (`serverTLSBootstrap`, or files).
//! Otherwise the certificate is self-signed. It must be verified by the CA, with its name, or be byte for byte in a file
//! on the node. There is no third option: an unverified connection would leak the token.

mod host_file;

use std::{path::PathBuf, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime, pem::PemObject};
use tokio_rustls::TlsConnector;

pub use self::host_file::{HOST_CERTIFICATE, HostFile};

/// Why TLS to the kubelet could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading certificates from {path:?}")]
    Pem {
        path: PathBuf,
        source: rustls_pki_types::pem::Error,
    },
    #[error("no valid certificate in {0:?}, and no --kubelet-cert")]
    NoCertificate(PathBuf),
    #[error("invalid host name {name:?}")]
    Name {
        name: String,
        source: InvalidDnsNameError,
    },
    #[error("building the verifier")]
    Verifier(#[source] rustls::client::VerifierBuilderError),
    #[error("choosing protocol versions")]
    Versions(#[source] rustls::Error),
}

/// Files with the trusted certificates.
#[derive(Debug)]
pub struct Trust {
    pub ca: PathBuf,
    pub pinned: Pinned,
}

/// The kubelet's self-signed certificate.
#[derive(Debug, Clone)]
pub enum Pinned {
    /// No pinned certificate: the CA must verify the kubelet.
    None,
    /// A file that must exist.
    File(PathBuf),
    /// [`HOST_CERTIFICATE`] on the host's disk, if it exists.
    Host(HostFile),
}

impl Trust {
    /// Reads the certificates.
    pub fn connector(&self) -> Result<TlsConnector, Error> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        let pinned = match &self.pinned {
            Pinned::None => Vec::new(),
            Pinned::File(path) => read(path)?,
            // If the file is absent or unreadable, only the CA can verify. `description` has the reason.
            Pinned::Host(file) => file.read().unwrap_or_default(),
        };
        // With a pinned certificate the CA is optional.
        let ca = match read(&self.ca) {
            Err(_absent) if !pinned.is_empty() => Vec::new(),
            ca => ca?,
        };
        let (usable, _unusable) = roots.add_parsable_certificates(ca);
        let authority = if usable > 0 {
            let builder =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            Some(builder.build().map_err(Error::Verifier)?)
        } else if pinned.is_empty() {
            return Err(Error::NoCertificate(self.ca.clone()));
        } else {
            None
        };
        let verifier = Verifier {
            authority,
            pinned,
            provider: Arc::clone(&provider),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Error::Versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// Names the trusted certificates, for messages.
    pub fn description(&self) -> String {
        let ca = format!("the CA in {:?}", self.ca);
        match &self.pinned {
            Pinned::None => ca,
            Pinned::File(path) => format!("{ca} or the certificate in {path:?}"),
            Pinned::Host(file) => match file.read() {
                Ok(_) => format!("{ca} or the certificate in the node's {HOST_CERTIFICATE}"),
                Err(error) => format!("{ca} (the node's {HOST_CERTIFICATE}: {error})"),
            },
        }
    }
}

/// The name that the kubelet's certificate must have.
pub fn server_name(host: &str) -> Result<ServerName<'static>, Error> {
    let name = host.to_owned();
    ServerName::try_from(name.clone()).map_err(|source| Error::Name { name, source })
}

fn read(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let path = path.to_owned();
    CertificateDer::pem_file_iter(&path)
        .and_then(Iterator::collect)
        .map_err(|source| Error::Pem { path, source })
}

/// Accepts a pinned certificate, or one that the CA verifies.
#[derive(Debug)]
struct Verifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    pinned: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pinned.iter().any(|pinned| pinned == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let Some(authority) = &self.authority else {
            let error = CertificateError::UnknownIssuer;
            return Err(rustls::Error::InvalidCertificate(error));
        };
        authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests;
