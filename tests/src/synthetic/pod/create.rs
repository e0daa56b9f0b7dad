//! The creation of a pod on a node.

use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::id::new_uid;
use super::{Pod, network};
use crate::synthetic::bundles::Bundles;
use crate::synthetic::node::{self, Node};
use crate::synthetic::spec::PodSpec;
use crate::synthetic::wire::Sandbox;
use crate::synthetic::{machine, manifest, program};

impl Node {
    /// Starts to create a pod. The kubelet lists it first; its cgroup and its containers follow. Does not wait.
    ///
    /// # Panics
    ///
    /// If the pod requests the node's network namespace, and that is the
    /// machine's.
    pub fn create(&self, spec: &PodSpec) -> Pod {
        assert!(
            machine::is_own() || !(spec.shares.host_network || spec.shares.host_network_unreported),
            "the pod would listen on the loopback of the real machine"
        );
        let uid = new_uid(spec.origin);
        let manifest = manifest::without_status(&uid, node::NAME, spec);
        let scheme = self.runtime().scheme();
        self.ledger().enter(&uid, spec, manifest.into(), scheme);
        Pod::begin(self, uid, spec)
    }

    /// Creates a pod and waits until its containers run.
    pub fn run(&self, spec: &PodSpec) -> Pod {
        let pod = self.create(spec);
        pod.wait_running();
        pod
    }

    /// The same for many pods at once.
    pub fn run_all(&self, specs: &[PodSpec]) -> Vec<Pod> {
        let pods: Vec<Pod> = specs.iter().map(|spec| self.create(spec)).collect();
        for pod in &pods {
            pod.wait_running();
        }
        pods
    }
}

impl Pod {
    /// Creates the sandbox, which the CNI plugin announces first if the spec requests it, and the containers. Does not
    /// wait.
    pub fn announce(&self) {
        self.pause();
        if self.spec.init_containers.is_empty() {
            self.initialize();
        }
    }

    fn begin(node: &Node, uid: String, spec: &PodSpec) -> Self {
        let cgroup = node.driver().pod(node.cgroup_root(), spec.qos, &uid);
        let sandbox = Sandbox {
            uid: uid.clone(),
            cgroup: cgroup.clone(),
            network_delay: spec.network_delay,
            host_network: spec.shares.host_network || spec.shares.host_network_unreported,
            own_users: spec.shares.own_users,
            routed: spec.routed,
            filter: network::filter(spec),
            announcement: network::announcement(node, spec),
            bundles: node.bundles().is_some(),
        };
        let json = serde_json::to_string(&sandbox).expect("plain data");
        let mut shim = node
            .command(&program::path())
            .args(["shim", &json])
            .stdin(Stdio::piped())
            .stdout(node.event_pipe())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the shim starts");
        let orders = shim.stdin.take().expect("piped above");
        let pod = Self {
            uid,
            spec: spec.clone(),
            driver: node.driver(),
            runtime: node.runtime(),
            cgroup,
            scratch: node.scratch().to_owned(),
            ledger: Arc::clone(node.ledger()),
            bundles: node.bundles().map(Bundles::places),
            shim,
            orders: Some(Mutex::new(orders)),
            initialized: AtomicBool::new(false),
        };
        if spec.has_sandbox_at_once {
            pod.announce();
        }
        pod
    }
}
