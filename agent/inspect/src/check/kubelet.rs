//! The kubelet, by what came of asking it for its pods.

use super::{Category, Check, Question};

const ANSWERS: Question = Question {
    id: "kubelet-pods",
    category: Category::Kubelet,
    title: "the kubelet gives its pods",
    why: "which containers are apps and which are sidecars is known from there; without it nothing is done to any pod",
};

/// All of them.
pub const ALL: &[&Question] = &[&ANSWERS];

/// What came of asking.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where it was asked.
    pub url: String,
    /// The token that was shown.
    pub token: String,
    /// Whom the kubelet's certificate was held against.
    pub ca: String,
    /// How many pods it gave, or what went wrong.
    pub pods: Result<usize, Refusal>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// As in the metric `usher_kubelet_requests_total`: `connect`, `timeout`, `tls`, `token`, `unauthorized`, `forbidden`,
    /// `server-error` or `decode`.
    pub kind: &'static str,
    /// All of it.
    pub error: String,
}

/// Judges it.
pub fn judge(found: &Found) -> Vec<Check> {
    vec![match &found.pods {
        Ok(pods) => ANSWERS.ok(format!("{} gave {pods} pods", found.url)),
        Err(refusal) => ANSWERS.failed(&refusal.error, mend(found, refusal)),
    }]
}

/// What a person can do.
fn mend(found: &Found, refusal: &Refusal) -> String {
    let Found { url, token, ca, .. } = found;
    match refusal.kind {
        "token" => format!(
            "run it in the agent's container (kubectl exec -n usher ds/usher -- usher check), or give a token: kubectl create token usher -n usher > FILE, and --kubelet-token FILE; {token} cannot be read"
        ),
        "tls" => format!(
            "the certificates in {ca} cannot be used: --kubelet-ca FILE, or --kubelet-cert /var/lib/kubelet/pki/kubelet.crt (chart: kubelet.certificate)"
        ),
        "connect" => match Certificate::refused(&refusal.error) {
            Some(Certificate::Times) => "compare the node's clock with the times above; where the certificate is old: serverTLSBootstrap: true in the kubelet's configuration has it renewed, or remove /var/lib/kubelet/pki/kubelet.crt and kubelet.key and restart the kubelet, which makes new ones".to_owned(),
            Some(Certificate::Name) => format!(
                "the kubelet's certificate is not for the address in {url}: --kubelet https://NAME:PORT with a name that it is for, or trust this very certificate: helm upgrade usher ... --set kubelet.certificate=/var/lib/kubelet/pki/kubelet.crt"
            ),
            Some(Certificate::Issuer) => format!(
                "the kubelet's certificate is not signed by {ca}: helm upgrade usher ... --set kubelet.certificate=/var/lib/kubelet/pki/kubelet.crt, or serverTLSBootstrap: true in the kubelet's configuration"
            ),
            None => format!(
                "nobody answers at {url}: systemctl status kubelet on the node; another address or port: --kubelet https://NODE-IP:PORT (chart: kubelet.port)"
            ),
        },
        "timeout" => "systemctl status kubelet on the node, and its log: it takes connections and does not answer".to_owned(),
        "unauthorized" => {
            "a token that is not too old (kubectl create token usher -n usher), authentication.webhook.enabled: true in the kubelet's configuration, and an API server that it reaches to ask about the token".to_owned()
        }
        "forbidden" => "the ClusterRole usher needs the rule {apiGroups: [\"\"], resources: [nodes/pods], verbs: [get]}; before Kubernetes 1.33 nodes/proxy instead: helm upgrade usher ... --set kubelet.nodesProxy=true".to_owned(),
        _ => format!("look at the kubelet's log (journalctl -u kubelet), and whether {url} is a kubelet"),
    }
}

/// What is wrong with a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certificate {
    /// It is not valid any more, or not yet.
    Times,
    /// It is for other names.
    Name,
    /// Nobody who is trusted has signed it, or anything else.
    Issuer,
}

impl Certificate {
    /// By the words of rustls.
    fn refused(error: &str) -> Option<Self> {
        let error = error.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
        if says(&["certificate expired", "not valid yet"]) {
            return Some(Self::Times);
        }
        if says(&["not valid for name"]) {
            return Some(Self::Name);
        }
        says(&["certificate", "unknownissuer"]).then_some(Self::Issuer)
    }
}
