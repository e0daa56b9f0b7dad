//! The processes of the cluster.

use std::fmt;

pub(super) const ETCD_PORT: u16 = 2379;
pub(super) const API_PORT: u16 = 6443;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    Containerd,
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Kubelet,
    KubeProxy,
}

impl Component {
    pub const ALL: [Self; 7] = [
        Self::Containerd,
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubelet,
        Self::KubeProxy,
    ];

    /// The components of a node without the control plane.
    pub(super) const WORKER: [Self; 3] = [Self::Containerd, Self::Kubelet, Self::KubeProxy];

    /// The name in log files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
