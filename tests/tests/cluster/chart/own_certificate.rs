//! A kubelet that created its own serving certificate, as with kubeadm's defaults and on kind.

use std::{fs, path::PathBuf};

use serde_json::Value;
use usher_cluster::{Component, Signal};

use super::release::Release;
use crate::{
    lab::{self, Lab, until},
    workload::{exit_code, job_becomes, meshed_job},
};

const CERTIFICATE: &str = "var/lib/kubelet/pki/kubelet.crt";
/// The fields that name the certificate which the cluster's CA signed.
const SIGNED: [&str; 2] = ["tlsCertFile", "tlsPrivateKeyFile"];

/// The kubelet without a certificate of the CA. On drop it has the earlier one again.
struct OwnCertificate<'lab> {
    lab: &'lab Lab,
    config: PathBuf,
    before: String,
}

impl<'lab> OwnCertificate<'lab> {
    fn set(lab: &'lab Lab) -> Self {
        let config = lab.cluster.state_dir().join("conf/kubelet.json");
        let before = fs::read_to_string(&config).unwrap();
        let mut own: Value = serde_json::from_str(&before).unwrap();
        for field in SIGNED {
            own.as_object_mut().unwrap().remove(field).unwrap();
        }
        let this = Self {
            lab,
            config,
            before,
        };
        this.restart(&own.to_string());
        let file = lab.cluster.node_root().unwrap().join(CERTIFICATE);
        until("the kubelet's own certificate", || {
            file.exists().then_some(())
        });
        this
    }

    fn restart(&self, config: &str) {
        fs::write(&self.config, config).unwrap();
        let kubelet = Component::Kubelet;
        self.lab.cluster.stop(kubelet, Signal::SIGKILL).unwrap();
        self.lab.cluster.start(kubelet).unwrap();
    }
}

impl Drop for OwnCertificate<'_> {
    fn drop(&mut self) {
        lab::tidy(|| self.restart(&self.before));
    }
}

#[test]
fn default_installation_becomes_ready_and_a_job_completes() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let _kubelet = OwnCertificate::set(&lab);
    // Nothing but the image and the mode; helm waits until the agent is ready.
    let _release = Release::install(&lab, &["mode=enforce"]);
    let namespace = lab.namespace("own-certificate");
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &["--run-for", "300ms"]))
        .unwrap();
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(*exit_code(&pod, "istio-proxy"), 0);
}
