//! Tests with a TLS server on loopback, and new certificates for each test.

use std::{fs, os::unix::fs::symlink, path::Path};

use hyper::Uri;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::{CertificateFault, Error, tls::*};

struct Served {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

fn self_signed(host: &str) -> Served {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Served { certificate, key }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(host: &str, by: &Issuer<'static, KeyPair>) -> Served {
    signed_with(host, by, |_params| {})
}

fn signed_with(
    host: &str,
    by: &Issuer<'static, KeyPair>,
    change: impl FnOnce(&mut CertificateParams),
) -> Served {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    change(&mut params);
    let certificate = params.signed_by(&key, by).unwrap();
    Served { certificate, key }
}

/// Whether a client with this trust accepts the server as 127.0.0.1.
async fn accepts(trust: &Trust, served: &Served) -> Result<(), String> {
    let connected = connect(trust, served).await;
    connected.map_err(|error| match error {
        Error::Connect { source, .. } => source.to_string(),
        Error::Tls { source, .. } => source.to_string(),
        other => other.to_string(),
    })
}

async fn connect(trust: &Trust, served: &Served) -> Result<(), Error> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(served.key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![served.certificate.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (stream, _peer) = listener.accept().await.unwrap();
        // The client reports the same error.
        drop(TlsAcceptor::from(Arc::new(config)).accept(stream).await);
    };
    let connect = async {
        let url = Uri::default;
        let connector = trust.connector();
        let connector = connector.map_err(|source| Error::Tls { url: url(), source })?;
        let stream = TcpStream::connect(address).await.unwrap();
        let name = server_name("127.0.0.1").unwrap();
        let connected = connector.connect(name, stream).await;
        connected
            .map(drop)
            .map_err(|source| Error::Connect { url: url(), source })
    };
    tokio::select! {
        biased;
        connected = connect => connected,
        () = async { serve.await; std::future::pending().await } => unreachable!(),
    }
}

fn write(directory: &Path, name: &str, pem: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, pem).unwrap();
    path
}

fn trusting(directory: &Path, authority: &CertifiedIssuer<'static, KeyPair>) -> Trust {
    Trust {
        ca: write(directory, "ca.crt", &authority.pem()),
        pinned: Pinned::None,
    }
}

#[tokio::test(flavor = "current_thread")]
async fn certificate_needs_authority_and_name() {
    let directory = tempfile::tempdir().unwrap();
    let authority = authority();
    let trust = trusting(directory.path(), &authority);
    accepts(&trust, &signed("127.0.0.1", &authority))
        .await
        .unwrap();
    let other_name = signed("127.0.0.2", &authority);
    assert!(accepts(&trust, &other_name).await.is_err());
    let stranger = accepts(&trust, &self_signed("127.0.0.1")).await;
    let error = stranger.unwrap_err();
    assert!(error.contains("invalid peer certificate"), "{error}");
}

/// `usher check` selects its advice by these faults.
#[tokio::test(flavor = "current_thread")]
async fn each_fault_of_a_certificate_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let authority = authority();
    let trust = trusting(directory.path(), &authority);
    let old = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let early =
        |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(4000, 1, 1);
    for (served, fault) in [
        (
            signed_with("127.0.0.1", &authority, old),
            CertificateFault::Time,
        ),
        (
            signed_with("127.0.0.1", &authority, early),
            CertificateFault::Time,
        ),
        (signed("127.0.0.2", &authority), CertificateFault::Name),
        (signed("node-1", &authority), CertificateFault::Name),
        (self_signed("127.0.0.1"), CertificateFault::Issuer),
    ] {
        let error = connect(&trust, &served).await.unwrap_err();
        assert_eq!(error.certificate_fault(), Some(fault), "{error:?}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn pinned_certificate_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    // The certificate has the node's name, but usher connects to an address.
    let kubelet = self_signed("node-1");
    let trust = Trust {
        ca: directory.path().join("absent"),
        pinned: Pinned::File(write(
            directory.path(),
            "kubelet.crt",
            &kubelet.certificate.pem(),
        )),
    };
    accepts(&trust, &kubelet).await.unwrap();
    let twin = accepts(&trust, &self_signed("node-1")).await;
    assert!(twin.unwrap_err().contains("UnknownIssuer"));
}

#[tokio::test(flavor = "current_thread")]
async fn certificate_of_the_host_is_pinned_where_it_exists() {
    let directory = tempfile::tempdir().unwrap();
    let (ca, root) = (authority(), directory.path().join("root"));
    let pki = root.join("mnt/kubelet/pki");
    fs::create_dir_all(&pki).unwrap();
    fs::create_dir_all(root.join("var/lib")).unwrap();
    // An absolute link is relative to the host's root.
    symlink("/mnt/kubelet", root.join("var/lib/kubelet")).unwrap();
    let trust = Trust {
        pinned: Pinned::Host(HostFile::start(root.clone()).unwrap()),
        ..trusting(directory.path(), &ca)
    };
    let kubelet = self_signed("node-1");
    assert!(accepts(&trust, &kubelet).await.is_err());
    let description = trust.description();
    assert!(
        description.contains("kubelet.crt: No such file"),
        "{description}"
    );
    accepts(&trust, &signed("127.0.0.1", &ca)).await.unwrap();

    let file = pki.join("kubelet.crt");
    fs::write(&file, kubelet.certificate.pem()).unwrap();
    accepts(&trust, &kubelet).await.unwrap();
    accepts(&trust, &signed("127.0.0.1", &ca)).await.unwrap();
    assert!(accepts(&trust, &self_signed("node-1")).await.is_err());

    for content in ["", "no certificate"] {
        fs::write(&file, content).unwrap();
        assert!(accepts(&trust, &kubelet).await.is_err());
        let description = trust.description();
        assert!(
            description.contains("no certificate in it"),
            "{description}"
        );
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(accepts(&trust, &kubelet).await.is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn missing_certificates_are_an_error_with_the_file_name() {
    let directory = tempfile::tempdir().unwrap();
    let kubelet = self_signed("127.0.0.1");
    for content in [None, Some("no certificate"), Some("")] {
        let ca = directory.path().join("ca.crt");
        if let Some(content) = content {
            fs::write(&ca, content).unwrap();
        }
        let trust = Trust {
            ca,
            pinned: Pinned::None,
        };
        let error = accepts(&trust, &kubelet).await.unwrap_err();
        assert!(error.contains("ca.crt"), "{content:?}: {error}");
    }
}
