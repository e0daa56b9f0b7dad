//! A cluster of two nodes with usher on both, and the observable state of each.

use std::{
    env, fs,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use usher_cluster::{
    Cluster, Member,
    workload::{app_container, istio_proxy_container, job},
};
use usher_tests::wait::found_within;

/// Names the cluster of the tests.
pub(crate) const CLUSTER: &str = "USHER_TEST_CLUSTER";
pub(crate) const MANIFEST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/manifests/usher.yaml"
);
const PATIENCE: Duration = Duration::from_secs(180);
pub(crate) const USHER: &str = "usher";
pub(crate) const NAMESPACE: &str = "pair";
/// The run time of the Jobs' apps.
const LASTS: &str = "500ms";

/// The tests change Nodes and the installation.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Rig {
    pub(crate) cluster: Cluster,
    /// The first has the control plane.
    pub(crate) nodes: [Member; 2],
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// None if the test is to be skipped; then the reason has been printed.
    pub(crate) fn open() -> Option<Self> {
        let Ok(name) = env::var(CLUSTER) else {
            skip(&format!(
                "{CLUSTER} names no cluster; `cargo xtask test --all` brings one up"
            ));
            return None;
        };
        // A failure of another test does not affect this one.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::new(&name).unwrap();
        let Ok(nodes) = cluster.members().unwrap().try_into() else {
            skip(&format!("cluster {name} does not have two nodes"));
            return None;
        };
        let rig = Self {
            nodes,
            cluster,
            _turn: turn,
        };
        rig.cluster.kubectl(&["apply", "-f", MANIFEST]).unwrap();
        let rollout = ["-n", USHER, "rollout", "status", "daemonset/usher"];
        rig.cluster
            .kubectl(&[&rollout[..], &["--timeout=180s"]].concat())
            .unwrap();
        // The rest of an earlier run.
        let delete = ["delete", "namespace", NAMESPACE, "--ignore-not-found"];
        rig.cluster.kubectl(&delete).unwrap();
        let space =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        rig.cluster.apply(&space).unwrap();
        let account = ["-n", NAMESPACE, "get", "serviceaccount", "default"];
        until("the namespace's account", || {
            rig.cluster.kubectl(&account).ok()
        });
        for node in &rig.nodes {
            rig.says(node, &["mode-", "quit-", "hold-"], ["observe", "observe"]);
        }
        Some(rig)
    }

    /// Annotates a Node, and waits until its agent applies it: the modes of quit and hold.
    pub(crate) fn says(&self, node: &Member, annotations: &[&str], modes: [&str; 2]) {
        let annotations: Vec<String> = annotations
            .iter()
            .map(|annotation| format!("usher.dev/{annotation}"))
            .collect();
        let mut args = vec!["annotate", "--overwrite", "node", node.name()];
        args.extend(annotations.iter().map(String::as_str));
        self.cluster.kubectl(&args).unwrap();
        until(&format!("{} to take {annotations:?}", node.name()), || {
            (taken(node)? == modes).then_some(())
        });
        until("the CNI plugin as the mode wants it", || {
            (announces(node) == (modes[1] == "enforce")).then_some(())
        });
    }

    /// Starts a Job with Istio's sidecar on a node, and waits until the API reports the exit of its app.
    pub(crate) fn app_ends(&self, node: &Member, name: &str) {
        let containers = [
            app_container("app", &["--run-for", LASTS]),
            istio_proxy_container(),
        ];
        let mut object = job(name, NAMESPACE, "Never", &containers);
        object["spec"]["template"]["spec"]["nodeSelector"] =
            json!({ "kubernetes.io/hostname": node.name() });
        self.cluster.apply(&object).unwrap();
        until(&format!("the end of {name}'s app"), || {
            let pod = self.pod(name)?;
            let ended = &container(&pod, "app")["state"]["terminated"];
            (ended["exitCode"] == 0).then_some(())
        });
    }

    pub(crate) fn pod(&self, job: &str) -> Option<Value> {
        let selector = format!("job-name={job}");
        let args = ["-n", NAMESPACE, "get", "pods", "-l", &selector];
        let pods = self.cluster.kubectl_json(&args).ok()?;
        pods["items"].as_array()?.first().cloned()
    }

    pub(crate) fn completes(&self, job: &str) {
        let name = format!("job/{job}");
        let wait = ["-n", NAMESPACE, "wait", "--for=condition=Complete", &name];
        let wait = [&wait[..], &["--timeout=180s"]].concat();
        self.cluster.kubectl(&wait).unwrap();
    }

    /// The Job's sidecar is in its first run, and the Job waits for it.
    pub(crate) fn is_stuck(&self, job: &str) {
        let pod = self.pod(job).unwrap();
        let sidecar = container(&pod, "istio-proxy");
        assert!(sidecar["state"]["running"].is_object(), "{job}: {sidecar}");
        assert_eq!(sidecar["restartCount"], 0, "{job}");
        let active = "jsonpath={.status.active}";
        let args = ["-n", NAMESPACE, "get", "job", job, "-o", active];
        assert_eq!(self.cluster.kubectl(&args).unwrap(), "1", "{job}");
    }
}

#[expect(clippy::print_stderr, reason = "a skip has to be seen")]
fn skip(reason: &str) {
    let pipeline = env::var("CI").is_ok_and(|value| value == "true");
    assert!(!pipeline, "skipped in CI: {reason}");
    eprintln!("SKIPPED: {reason}");
}

fn container<'pod>(pod: &'pod Value, name: &str) -> &'pod Value {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let mut statuses = statuses.into_iter().flatten();
    let found = statuses.find(|status| status["name"] == name);
    found.unwrap_or(&Value::Null)
}

/// Polls `check` until it returns a value.
pub(crate) fn until<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    found_within(PATIENCE, what, check)
}

/// The whole log of the node's agents, the current one last.
pub(crate) fn log(node: &Member) -> Vec<Value> {
    let root = node.root().expect("the node is up");
    let pods = fs::read_dir(root.join("var/log/pods"))
        .unwrap()
        .flatten()
        .filter(|pod| {
            pod.file_name()
                .to_string_lossy()
                .starts_with("usher_usher-")
        });
    let mut files: Vec<_> = pods
        .filter_map(|pod| fs::read_dir(pod.path().join("agent")).ok())
        .flat_map(|files| files.flatten().map(|file| file.path()))
        .collect();
    files.sort_by_key(|file| file.metadata().and_then(|file| file.modified()).ok());
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    // Time, stream, tag, and text.
    texts
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| serde_json::from_str(line.splitn(4, ' ').nth(3)?).ok())
                .collect::<Vec<Value>>()
        })
        .collect()
}

/// The decisions of a node's agent about the pod of a Job, in order.
pub(crate) fn decisions(node: &Member, job: &str) -> Vec<String> {
    let prefix = format!("{NAMESPACE}/{job}-");
    let about = |line: &Value| {
        let pod = line["pod"].as_str()?;
        let decision = line["decision"].as_str()?;
        pod.starts_with(&prefix).then(|| decision.to_owned())
    };
    log(node).iter().filter_map(about).collect()
}

/// Waits for a decision of a node's agent about the pod of a Job.
pub(crate) fn decided(node: &Member, job: &str, decision: &str) {
    until(&format!("{decision} of {job}"), || {
        let decisions = decisions(node, job);
        decisions
            .iter()
            .any(|found| found == decision)
            .then_some(())
    });
}

/// The latest modes of quit and hold that the node's agent applied.
fn taken(node: &Member) -> Option<[String; 2]> {
    let lines = log(node);
    let last = lines.iter().rfind(|line| line.get("quit").is_some())?;
    let mode = |field: &str| last[field].as_str().unwrap_or_default().to_owned();
    Some([mode("quit"), mode("hold")])
}

/// The concatenated network configurations of the node.
pub(crate) fn networks(node: &Member) -> String {
    let dir = node.root().unwrap().join("etc/cni/net.d");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().flatten().collect();
    files.sort_by_key(fs::DirEntry::file_name);
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .collect()
}

/// Whether one of them has the plugin.
pub(crate) fn announces(node: &Member) -> bool {
    networks(node).contains("\"usher-cni\"")
}

pub(crate) fn has_plugin(node: &Member) -> bool {
    node.root().unwrap().join("opt/cni/bin/usher-cni").exists()
}
