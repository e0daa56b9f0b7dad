//! The cluster's own certificate authority and everyone's credentials.
//!
//! The kubelet's serving certificate is signed too, so that clients can check it as they do the API server's.

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

/// Makes all certificates and kubeconfig files, once.
pub(super) fn ensure(state: &State, node: &str, address: Ipv4Addr) -> Result<()> {
    let done = state.dir().join("pki");
    if !done.is_dir() {
        let partial = state.dir().join("pki.partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)
                .with_context(|| format!("remove {}", partial.display()))?;
        }
        fs::create_dir(&partial).with_context(|| format!("create {}", partial.display()))?;
        Authority::make(&partial)?.issue_all(node, address)?;
        fs::rename(&partial, &done).with_context(|| format!("rename to {}", done.display()))?;
    }
    for user in [
        "admin",
        "controller-manager",
        "kube-proxy",
        "kubelet",
        "scheduler",
    ] {
        write_kubeconfig(state, user, address)?;
    }
    Ok(())
}

struct Authority<'a> {
    issuer: Issuer<'static, KeyPair>,
    dir: &'a Path,
}

impl<'a> Authority<'a> {
    fn make(dir: &'a Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "usher-test-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("make the authority's key")?;
        let certificate = params
            .self_signed(&key)
            .context("make the authority's certificate")?;
        write(dir, "ca.crt", &certificate.pem())?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            dir,
        })
    }

    fn issue_all(&self, node: &str, address: Ipv4Addr) -> Result<()> {
        let (address, service) = (address.to_string(), API_SERVICE.to_string());
        let api_names = [
            "127.0.0.1",
            &address,
            &service,
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        let node_user = format!("system:node:{node}");
        self.issue("apiserver", None, "kube-apiserver", &api_names)?;
        self.issue(
            "kubelet-server",
            Some(NODES),
            &node_user,
            &["127.0.0.1", &address, node, "localhost"],
        )?;
        self.issue("admin", Some(MASTERS), "admin", &[])?;
        self.issue(
            "apiserver-kubelet-client",
            Some(MASTERS),
            "apiserver-kubelet-client",
            &[],
        )?;
        self.issue("kubelet", Some(NODES), &node_user, &[])?;
        self.issue(
            "controller-manager",
            None,
            "system:kube-controller-manager",
            &[],
        )?;
        self.issue("scheduler", None, "system:kube-scheduler", &[])?;
        self.issue("kube-proxy", None, "system:kube-proxy", &[])?;

        let tokens = KeyPair::generate().context("make the key of service account tokens")?;
        write(self.dir, "service-account.key", &tokens.serialize_pem())?;
        write(self.dir, "service-account.pub", &tokens.public_key_pem())
    }

    /// A server's certificate when there are names to serve under, else a client's.
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
