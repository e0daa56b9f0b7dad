//! A kubelet that serves with a certificate of its own.

use std::{fs, net::TcpListener, path::PathBuf, sync::Arc, thread};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::{io, net, runtime};
use tokio_rustls::TlsAcceptor;
use usher_tests::synthetic::{Agent, ApiServer, Node, PodSpec};

use crate::{enforcing, finish_and_quit};

const FILE: &str = "root/var/lib/kubelet/pki/kubelet.crt";

/// A node whose kubelet has a self-signed certificate, and the cluster's CA, which did not sign it.
struct Fixture {
    node: Node,
    server: ApiServer,
    disk: TempDir,
    certificate: String,
}

impl Fixture {
    fn set() -> Option<Self> {
        let node = enforcing()?;
        let [kubelet, ca] = ["node-1", "ca"]
            .map(|name| generate_simple_self_signed(vec![name.to_owned()]).unwrap());
        let disk = TempDir::new().unwrap();
        fs::create_dir_all(disk.path().join(FILE).parent().unwrap()).unwrap();
        fs::write(disk.path().join("ca.crt"), ca.cert.pem()).unwrap();
        let certificate = kubelet.cert.pem();
        serve(&node, &kubelet);
        let server = ApiServer::start();
        server.annotate(&[("usher.dev/mode", "enforce")]);
        Some(Self {
            node,
            server,
            disk,
            certificate,
        })
    }

    fn file(&self) -> PathBuf {
        self.disk.path().join(FILE)
    }

    fn agent(&self, flags: &[&str]) -> Agent {
        let path = |name: &str| self.disk.path().join(name).display().to_string();
        // As /proc/1/root: a path that the kernel denies to threads without CAP_SYS_PTRACE, since this process has
        // capabilities that the agent lacks.
        let root = format!("/proc/{}/root{}", std::process::id(), path("root"));
        let ca = path("ca.crt");
        let places = ["--kubelet-ca", &ca, "--host-root", &root];
        Agent::start_with_api(&self.node, &self.server, &[&places, flags].concat())
    }

    /// The Event, while the agent is not ready and has sent no token.
    fn is_refused(&self, agent: &Agent) -> String {
        let note = self
            .server
            .wait_events("an Event about the kubelet", |events| {
                let event = events
                    .iter()
                    .find(|event| event["reason"] == "KubeletUnreachable")?;
                Some(event["note"].as_str()?.to_owned())
            });
        assert_eq!(agent.get("/readyz").0, 503);
        assert_eq!(self.node.kubelet().requests(), 0);
        assert!(note.contains("value kubelet.certificate"), "{note}");
        note
    }
}

/// Serves the node's kubelet by TLS.
fn serve(node: &Node, certified: &CertifiedKey<rcgen::KeyPair>) {
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certified.cert.der().clone()],
            PrivateKeyDer::Pkcs8(key),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let kubelet = node.kubelet().address();
    node.kubelet().proxied_at(format!("https://{address}"));
    let proxy = async move {
        let listener = net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut client = acceptor.accept(stream).await.ok()?;
                let mut kubelet = net::TcpStream::connect(kubelet).await.ok()?;
                io::copy_bidirectional(&mut client, &mut kubelet).await.ok()
            });
        }
    };
    thread::spawn(|| {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(proxy);
    });
}

#[test]
fn certificate_on_the_disk_of_the_node_is_pinned() {
    let Some(fixture) = Fixture::set() else {
        return;
    };
    fs::write(fixture.file(), &fixture.certificate).unwrap();
    let agent = fixture.agent(&[]);
    finish_and_quit(&agent, &fixture.node.run(&PodSpec::job("pinned")));
}

#[test]
fn unknown_certificate_is_refused_until_its_file_appears() {
    let Some(fixture) = Fixture::set() else {
        return;
    };
    let agent = fixture.agent(&[]);
    let pod = fixture.node.run(&PodSpec::job("waits"));
    let note = fixture.is_refused(&agent);
    assert!(note.contains("kubelet.crt: No such file"), "{note}");
    // Another certificate is no reason to trust this one.
    let other = generate_simple_self_signed(vec!["node-1".to_owned()]).unwrap();
    fs::write(fixture.file(), other.cert.pem()).unwrap();
    let refused = "result=\"tls\"";
    let before = agent.metric("usher_kubelet_requests_total", refused);
    // The next one may have read the file before.
    agent.wait_metric("usher_kubelet_requests_total", refused, |count| {
        count >= before + 2.0
    });
    assert_eq!(fixture.node.kubelet().requests(), 0);
    fs::write(fixture.file(), &fixture.certificate).unwrap();
    finish_and_quit(&agent, &pod);
}

#[test]
fn file_on_the_disk_is_ignored_without_auto() {
    let Some(fixture) = Fixture::set() else {
        return;
    };
    fs::write(fixture.file(), &fixture.certificate).unwrap();
    let agent = fixture.agent(&["--kubelet-cert", ""]);
    fixture.node.run(&PodSpec::job("refused"));
    fixture.is_refused(&agent);
}
