//! The command lines of the cluster's processes.

use std::ffi::OsString;

use super::{
    component::{API_PORT, Component, ETCD_PORT},
    state::{Facts, State},
};
use crate::node::SERVICE_RANGE;

impl Component {
    /// The program and its arguments.
    pub(super) fn command(self, state: &State, node: &str, facts: &Facts) -> Vec<OsString> {
        let mut words: Vec<OsString> = match self {
            Self::Containerd => vec!["containerd".into()],
            _ => vec![state.kubernetes().into(), self.name().into()],
        };
        words.extend(
            self.flags(state, node, facts)
                .into_iter()
                .map(OsString::from),
        );
        words
    }

    fn flags(self, state: &State, node: &str, facts: &Facts) -> Vec<String> {
        let conf = |name: &str| state.conf(name).display().to_string();
        let kubeconfig = |user: &str| format!("--kubeconfig={}", state.kubeconfig(user).display());
        // With one node there is no election: without these limits the controller manager alone takes 5 s to start.
        let hurry = || {
            [
                "--leader-elect=false",
                "--kube-api-qps=200",
                "--kube-api-burst=400",
                "--v=1",
            ]
            .map(String::from)
        };
        match self {
            Self::Containerd => vec![
                "--config".into(),
                conf("containerd.toml"),
                "--log-level".into(),
                "info".into(),
            ],
            Self::Etcd => vec![
                "--data-dir".into(),
                state.dir().join("etcd").display().to_string(),
                "--listen-client-url".into(),
                format!("http://127.0.0.1:{ETCD_PORT}"),
            ],
            Self::ApiServer => api_server_flags(state, facts),
            Self::ControllerManager => {
                let mut flags = hurry().to_vec();
                flags.push(kubeconfig("controller-manager"));
                flags.push(format!("--root-ca-file={}", state.pki("ca.crt").display()));
                flags.push(format!(
                    "--service-account-private-key-file={}",
                    state.pki("service-account.key").display()
                ));
                flags.push("--use-service-account-credentials=true".into());
                flags.push("--node-monitor-period=1s".into());
                flags
            }
            Self::Scheduler => [&hurry()[..], &[kubeconfig("scheduler")]].concat(),
            Self::Kubelet => vec![
                format!("--config={}", conf("kubelet.json")),
                kubeconfig("kubelet"),
                format!("--hostname-override={node}"),
                format!("--node-ip={}", facts.link.node()),
                "--v=2".into(),
            ],
            Self::KubeProxy => vec![
                format!("--config={}", conf("kube-proxy.json")),
                "--v=1".into(),
            ],
        }
    }
}

fn api_server_flags(state: &State, facts: &Facts) -> Vec<String> {
    let pki = |name: &str| state.pki(name).display().to_string();
    [
        ("etcd-servers", format!("http://127.0.0.1:{ETCD_PORT}")),
        ("advertise-address", facts.link.node().to_string()),
        ("secure-port", API_PORT.to_string()),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
        ("client-ca-file", pki("ca.crt")),
        (
            "kubelet-client-certificate",
            pki("apiserver-kubelet-client.crt"),
        ),
        ("kubelet-client-key", pki("apiserver-kubelet-client.key")),
        ("kubelet-certificate-authority", pki("ca.crt")),
        ("kubelet-preferred-address-types", "InternalIP".into()),
        (
            "service-account-issuer",
            "https://kubernetes.default.svc".into(),
        ),
        ("service-account-key-file", pki("service-account.pub")),
        (
            "service-account-signing-key-file",
            pki("service-account.key"),
        ),
        ("service-cluster-ip-range", SERVICE_RANGE.into()),
        ("authorization-mode", "Node,RBAC".into()),
        ("enable-admission-plugins", "NodeRestriction".into()),
        ("allow-privileged", "true".into()),
        (
            "audit-policy-file",
            state.conf("audit.json").display().to_string(),
        ),
        ("audit-log-path", state.audit_log().display().to_string()),
        ("audit-log-maxsize", "20".into()),
        ("audit-log-maxbackup", "1".into()),
        ("v", "1".into()),
    ]
    .into_iter()
    .map(|(flag, value)| format!("--{flag}={value}"))
    .collect()
}
