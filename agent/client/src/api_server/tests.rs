//! The client must accept a replaced CA bundle of the cluster.

use std::{fs, sync::Arc, time::Duration};

use kube::{Client, Config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::without_retry;

const HOST: &str = "127.0.0.1";
/// Longer than a minute, after which kube reads the file again.
const PATIENCE: Duration = Duration::from_secs(180);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate that this authority signed.
fn acceptor(authority: &Authority) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Sends one response per connection.
async fn serve(listener: TcpListener, acceptor: watch::Receiver<TlsAcceptor>) {
    loop {
        let (stream, _peer) = listener.accept().await.unwrap();
        let acceptor = acceptor.borrow().clone();
        // A client that does not trust the server closes the connection.
        drop(respond(acceptor, stream).await);
    }
}

async fn respond(acceptor: TlsAcceptor, stream: TcpStream) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = [0; 4096];
    let _length = stream.read(&mut request).await?;
    let response = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

async fn is_served(client: &Client) -> bool {
    let request = kube::core::Request::new("/api/v1/namespaces");
    let request = request
        .get("shop", &kube::api::GetParams::default())
        .unwrap();
    client.request::<serde_json::Value>(request).await.is_ok()
}

#[tokio::test(flavor = "current_thread")]
async fn replaced_ca_bundle_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("ca.crt");
    let [before, after] = [authority(), authority()];
    fs::write(&bundle, before.pem()).unwrap();
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (server, acceptors) = watch::channel(acceptor(&before));
    let _server = tokio::spawn(serve(listener, acceptors));

    // The same configuration as in a pod.
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert = Some(vec![before.der().to_vec()]);
    config.root_cert_file = Some(bundle.clone());
    let client = without_retry(config).unwrap();
    assert!(is_served(&client).await);

    server.send_replace(acceptor(&after));
    assert!(!is_served(&client).await);
    fs::write(&bundle, after.pem()).unwrap();
    let trusted = async {
        while !is_served(&client).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, trusted).await.unwrap();
}
