//! Checks of the kubelet, by the result of a request for its pods.

use super::{Check, Question, command};

questions! {
    Kubelet {
        PODS = "kubelet-pods",
            "the kubelet lists its pods",
            "usher reads from the list which containers are apps and which are sidecars; without it usher acts on no pod";
    }
}

/// The result of the request.
#[derive(Debug, Clone)]
pub struct Found {
    pub url: String,
    /// The path of the token.
    pub token: String,
    /// The path of the CA certificates that verify the kubelet's certificate.
    pub ca: String,
    pub pods: Result<Listed, Refusal>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    pub pods: usize,
    /// The number of pods that usher does not manage, because they are invalid or too large.
    pub skipped: usize,
    /// Why usher skips one of these pods.
    pub example: Option<String>,
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub cause: Cause,
    pub error: String,
}

/// The cause of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub enum Cause {
    Setting,
    /// The token cannot be read.
    Token,
    /// The CA certificates that verify the kubelet's certificate cannot be used.
    Trust,
    Connect,
    /// The kubelet's certificate is expired, or not valid yet.
    CertificateTime,
    /// The kubelet's certificate is for other names.
    CertificateName,
    /// The kubelet's certificate has an unknown issuer, or another fault.
    CertificateIssuer,
    Timeout,
    Unauthorized,
    Forbidden,
    ServerError,
    Decode,
}

pub fn judge(found: &Found) -> Vec<Check> {
    vec![match &found.pods {
        Ok(Listed {
            pods, skipped: 0, ..
        }) => PODS.ok(format!("{} listed {pods} pods", found.url)),
        Ok(listed) => PODS.warning(
            skipped(listed),
            "reduce their arguments, annotations or variables, or delete them",
        ),
        Err(refusal) => PODS.failed(&refusal.error, fix(found, refusal.cause)),
    }]
}

fn skipped(listed: &Listed) -> String {
    let Listed {
        pods,
        skipped,
        example,
    } = listed;
    let all = pods + skipped;
    let example = example.as_deref().unwrap_or_default();
    format!("usher does not manage {skipped} of {all} pods; one of them: {example}")
}

fn fix(found: &Found, cause: Cause) -> String {
    const RENEW: &str = "set serverTLSBootstrap: true in the kubelet's configuration";
    const TRUST: &str = "helm upgrade usher ... --set kubelet.certificate=FILE, the file of the kubelet's certificate on the nodes";
    let Found { url, token, ca, .. } = found;
    match cause {
        Cause::Token => format!(
            "run it in the agent's container: {}; or pass a token: kubectl create token usher -n usher > FILE, and --kubelet-token FILE; {token} cannot be read",
            command::exec("check")
        ),
        Cause::Trust => format!(
            "the certificates in {ca} cannot be used: --kubelet-ca FILE, or --kubelet-cert FILE (chart: kubelet.certificate)"
        ),
        Cause::Connect => format!(
            "no reply at {url}: systemctl status kubelet on the node; for another address or port: --kubelet https://NODE-IP:PORT (chart: kubelet.port)"
        ),
        Cause::CertificateTime => format!(
            "compare the node's clock with the times above; to renew an old certificate, {RENEW}, or remove /var/lib/kubelet/pki/kubelet.crt and kubelet.key and restart the kubelet, which creates new ones"
        ),
        Cause::CertificateName => format!(
            "the kubelet's certificate is not for the address in {url}: --kubelet https://NAME:PORT with a name of the certificate, or trust this certificate: {TRUST}"
        ),
        Cause::CertificateIssuer => format!(
            "the kubelet's certificate is not signed by {ca}: {TRUST}, or {RENEW}"
        ),
        Cause::Timeout => {
            "systemctl status kubelet on the node, and its log: it accepts connections and does not reply".to_owned()
        }
        Cause::Unauthorized => {
            "a new token (kubectl create token usher -n usher), authentication.webhook.enabled: true in the kubelet's configuration, and an API server that the kubelet reaches to review the token".to_owned()
        }
        Cause::Forbidden => "the ClusterRole usher needs the rule {apiGroups: [\"\"], resources: [nodes/pods], verbs: [get]}; a kubelet before 1.33 needs nodes/proxy instead, which helm upgrade grants; kubelet.nodesProxy=true in manifests that are rendered without the cluster".to_owned(),
        Cause::Setting | Cause::ServerError | Cause::Decode => {
            format!("read the kubelet's log (journalctl -u kubelet), and check that {url} is a kubelet")
        }
    }
}
