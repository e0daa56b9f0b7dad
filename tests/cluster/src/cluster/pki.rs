//! The cluster's own certificate authority and all credentials.
//!
//! The kubelet's serving certificate is signed too, so that clients can verify it like the API server's.

use std::{fs, net::Ipv4Addr, path::Path};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use super::{
    component::API_PORT,
    state::{State, replace},
};
use crate::node::API_SERVICE;

const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";

/// The users with credentials on every node, and those on the first one only.
const EVERYWHERE: [&str; 3] = ["admin", "kube-proxy", "kubelet"];
const CONTROL_PLANE: [&str; 2] = ["controller-manager", "scheduler"];

/// Creates all certificates and kubeconfig files of the first node, once.
pub(super) fn ensure(state: &State, node: &str, address: Ipv4Addr) -> Result<()> {
    whole(state, |dir| {
        let authority = Authority::make(dir)?;
        authority.issue_for_node(node, address)?;
        authority.issue_control_plane(address)
    })?;
    for user in EVERYWHERE.iter().chain(&CONTROL_PLANE) {
        write_kubeconfig(state, user, address)?;
    }
    Ok(())
}

/// The same for another node, by the first one's authority; `api` is the address of the API server.
pub(super) fn ensure_worker(
    first: &State,
    state: &State,
    node: &str,
    address: Ipv4Addr,
    api: Ipv4Addr,
) -> Result<()> {
    whole(state, |dir| {
        Authority::open(&first.pki(""), dir)?.issue_for_node(node, address)
    })?;
    for user in EVERYWHERE {
        write_kubeconfig(state, user, api)?;
    }
    Ok(())
}

/// Fills the directory of certificates unless it exists.
fn whole(state: &State, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let done = state.dir().join("pki");
    if done.is_dir() {
        return Ok(());
    }
    let partial = state.dir().join("pki.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("remove {}", partial.display()))?;
    }
    fs::create_dir(&partial).with_context(|| format!("create {}", partial.display()))?;
    fill(&partial)?;
    fs::rename(&partial, &done).with_context(|| format!("rename to {}", done.display()))
}

struct Authority<'a> {
    issuer: Issuer<'static, KeyPair>,
    dir: &'a Path,
}

impl<'a> Authority<'a> {
    fn make(dir: &'a Path) -> Result<Self> {
        let key = KeyPair::generate().context("make the authority's key")?;
        write(dir, "ca.key", &key.serialize_pem())?;
        let params = parameters();
        let certificate = params
            .self_signed(&key)
            .context("make the authority's certificate")?;
        write(dir, "ca.crt", &certificate.pem())?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            dir,
        })
    }

    /// The authority of another directory, to issue into this one.
    fn open(made: &Path, dir: &'a Path) -> Result<Self> {
        let read = |name: &str| {
            let path = made.join(name);
            fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
        };
        let key = KeyPair::from_pem(&read("ca.key")?).context("the authority's key")?;
        write(dir, "ca.crt", &read("ca.crt")?)?;
        Ok(Self {
            issuer: Issuer::new(parameters(), key),
            dir,
        })
    }

    fn issue_for_node(&self, node: &str, address: Ipv4Addr) -> Result<()> {
        let user = format!("system:node:{node}");
        let names = ["127.0.0.1", &address.to_string(), node, "localhost"];
        self.issue("kubelet-server", Some(NODES), &user, &names)?;
        self.issue("kubelet", Some(NODES), &user, &[])?;
        self.issue("kube-proxy", None, "system:kube-proxy", &[])?;
        self.issue("admin", Some(MASTERS), "admin", &[])
    }

    fn issue_control_plane(&self, address: Ipv4Addr) -> Result<()> {
        let api_names = [
            "127.0.0.1",
            &address.to_string(),
            &API_SERVICE.to_string(),
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        self.issue("apiserver", None, "kube-apiserver", &api_names)?;
        let client = "apiserver-kubelet-client";
        self.issue(client, Some(MASTERS), client, &[])?;
        for user in CONTROL_PLANE {
            self.issue(user, None, &format!("system:kube-{user}"), &[])?;
        }
        let tokens = KeyPair::generate().context("make the key of service account tokens")?;
        write(self.dir, "service-account.key", &tokens.serialize_pem())?;
        write(self.dir, "service-account.pub", &tokens.public_key_pem())
    }

    /// A server's certificate if there are names to serve under, otherwise a client's.
    fn issue(
        &self,
        file: &str,
        organization: Option<&str>,
        common_name: &str,
        names: &[&str],
    ) -> Result<()> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let usage = if names.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        };
        let mut params = CertificateParams::new(names)
            .with_context(|| format!("names of certificate {file}"))?;
        if let Some(organization) = organization {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization);
        }
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().with_context(|| format!("make key {file}"))?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .with_context(|| format!("sign certificate {file}"))?;
        write(self.dir, &format!("{file}.crt"), &certificate.pem())?;
        write(self.dir, &format!("{file}.key"), &key.serialize_pem())
    }
}

fn parameters() -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "usher-test-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn write(dir: &Path, name: &str, pem: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, pem).with_context(|| format!("write {}", path.display()))
}

/// JSON is YAML too.
fn write_kubeconfig(state: &State, user: &str, address: Ipv4Addr) -> Result<()> {
    let pki = |name: &str| state.pki(name);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "usher", "cluster": {
            "server": format!("https://{address}:{API_PORT}"), "certificate-authority": pki("ca.crt"),
        }}],
        "users": [{ "name": user, "user": {
            "client-certificate": pki(&format!("{user}.crt")), "client-key": pki(&format!("{user}.key")),
        }}],
        "contexts": [{ "name": "usher", "context": { "cluster": "usher", "user": user } }],
        "current-context": "usher",
    });
    replace(&state.kubeconfig(user), config.to_string().as_bytes())
}
