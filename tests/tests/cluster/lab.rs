//! The cluster under test, with usher deployed on it.

mod log;

use std::{
    fs,
    ops::Deref,
    panic::AssertUnwindSafe,
    sync::{
        OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::json;
use usher_cluster::{Cluster, Component, programs::Kubernetes};
use usher_tests::wait::found_within;

pub(crate) use self::log::Line;

/// Names the cluster of the tests.
const CLUSTER: &str = "USHER_TEST_CLUSTER";
pub(crate) const USHER: &str = "usher";
/// Rendered from the chart.
pub(crate) const MANIFEST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/manifests/usher.yaml"
);
/// The strictest seccomp profile, and the kubelet's directory for such files.
const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/seccomp/usher.json");
const PROFILES: &str = "var/lib/kubelet/seccomp";
pub(crate) const PROFILE_NAME: &str = "usher.json";
/// Longer than any step takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The limit of immediate actions of usher, many times what a busy machine needs. Requests that time out, a lost watch
/// and a poll of the API server take longer. The benchmarks have the precise times.
pub(crate) const SOON: Duration = Duration::from_secs(8);

static LAB: OnceLock<Option<Lab>> = OnceLock::new();
static TURN: RwLock<()> = RwLock::new(());
/// Set while the node is restored after a test, and afterwards if that failed.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

/// The cluster, shared by the tests of this program.
pub(crate) struct Lab {
    pub(crate) cluster: Cluster,
    namespaces: AtomicU32,
}

/// The lab, shared with other tests.
pub(crate) struct Shared {
    lab: &'static Lab,
    _beside: RwLockReadGuard<'static, ()>,
}

/// The lab for one test alone. Afterwards the node is in enforce mode again.
pub(crate) struct Alone {
    lab: &'static Lab,
    _alone: RwLockWriteGuard<'static, ()>,
}

/// The lab, or None if the test is to be skipped; then the reason has been printed.
pub(crate) fn shared() -> Option<Shared> {
    let lab = LAB.get_or_init(open).as_ref()?;
    // A failure of another test does not affect this one.
    let turn = || TURN.read().unwrap_or_else(PoisonError::into_inner);
    let mut beside = turn();
    if IS_BROKEN.load(Ordering::Relaxed) {
        drop(beside);
        drop(alone());
        beside = turn();
    }
    Some(Shared {
        lab,
        _beside: beside,
    })
}

/// The same, exclusively for one test.
pub(crate) fn alone() -> Option<Alone> {
    let lab = LAB.get_or_init(open).as_ref()?;
    let guard = TURN.write();
    let _alone = guard.unwrap_or_else(PoisonError::into_inner);
    if IS_BROKEN.load(Ordering::Relaxed) {
        lab.restore();
    }
    Some(Alone { lab, _alone })
}

impl Deref for Shared {
    type Target = &'static Lab;

    fn deref(&self) -> &&'static Lab {
        &self.lab
    }
}

impl Deref for Alone {
    type Target = &'static Lab;

    fn deref(&self) -> &&'static Lab {
        &self.lab
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // A failed test may have left the node without an agent.
        tidy(|| self.restore());
    }
}

/// For drops: during a panic a second panic would hide the first, and abort all tests.
pub(crate) fn tidy(work: impl FnOnce()) {
    if thread::panicking() {
        drop(std::panic::catch_unwind(AssertUnwindSafe(work)));
    } else {
        work();
    }
}

#[expect(clippy::print_stderr, reason = "a skip has to be seen")]
fn open() -> Option<Lab> {
    let Ok(name) = std::env::var(CLUSTER) else {
        let reason = format!("{CLUSTER} names no cluster; `cargo xtask test` brings one up");
        let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!pipeline, "skipped in CI: {reason}");
        eprintln!("SKIPPED: {reason}");
        return None;
    };
    let lab = Lab {
        cluster: Cluster::new(&name).unwrap(),
        namespaces: AtomicU32::new(0),
    };
    lab.deploy();
    lab.mode("enforce");
    Some(lab)
}

/// Polls `check` until it returns a value.
pub(crate) fn until<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    found_within(PATIENCE, what, check)
}

/// A test's own namespace. It stays until the cluster is removed. If the test fails, the decisions about it and the state of
/// its pods are printed, and it is deleted: its pods may take the room of others.
pub(crate) struct Namespace {
    lab: &'static Lab,
    name: String,
}

impl Deref for Namespace {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl Drop for Namespace {
    #[expect(clippy::print_stderr, reason = "for who reads why a test failed")]
    fn drop(&mut self) {
        if thread::panicking() {
            let list = |what: &str, which: &str, how: &str| {
                let args = ["-n", &self.name, "get", what, which, "-o", how];
                let found = self.lab.cluster.kubectl(&args);
                eprintln!("{}", found.unwrap_or_else(|error| error.to_string()));
            };
            let statuses = r#"jsonpath={range .items[*]}{.metadata.name}: {.status.containerStatuses}{"\n"}{end}"#;
            list("pods", "--field-selector=status.phase!=Succeeded", statuses);
            list("events", "--field-selector=type=Warning", "wide");
            let lines = self.lab.decisions(&self.name);
            for line in lines.into_iter().chain(self.lab.holds(&self.name)) {
                eprintln!("{}", line.0);
            }
            let delete = ["delete", "namespace", &self.name, "--wait=false"];
            tidy(|| drop(self.lab.cluster.kubectl(&delete)));
        }
    }
}

impl Lab {
    fn restore(&self) {
        if IS_BROKEN.swap(true, Ordering::Relaxed) || thread::panicking() {
            self.reset();
        }
        self.deploy();
        self.mode("enforce");
        IS_BROKEN.store(false, Ordering::Relaxed);
    }

    /// Starts what a failed test has stopped, and removes the agent with the changes of its objects.
    fn reset(&self) {
        for component in Component::ALL {
            self.cluster.start(component).unwrap();
        }
        until("the API server", || {
            self.cluster.kubectl(&["get", "--raw", "/readyz"]).ok()
        });
        let delete = ["delete", "-f", MANIFEST, "--ignore-not-found", "--wait"];
        self.cluster.kubectl(&delete).unwrap();
    }

    /// Applies the manifest, and waits for the agent.
    pub(crate) fn deploy(&self) {
        self.apply();
        self.wait_ready();
    }

    /// Applies the manifest for users without Helm, with the strictest seccomp profile: it permits everything that the
    /// agent does in these tests.
    pub(crate) fn apply(&self) {
        let root = self.cluster.node_root().expect("the node is up");
        let profiles = root.join(PROFILES);
        fs::create_dir_all(&profiles).unwrap();
        fs::copy(PROFILE, profiles.join(PROFILE_NAME)).unwrap();
        let manifest = tempfile::NamedTempFile::new().unwrap();
        fs::write(manifest.path(), self.manifest()).unwrap();
        let path = manifest.path().to_str().unwrap();
        self.cluster.kubectl(&["apply", "-f", path]).unwrap();
    }

    /// The manifest with the narrow profile, and with the permission that older kubelets require.
    fn manifest(&self) -> String {
        let manifest = filtered();
        if self.cluster.kubernetes() >= Kubernetes::V1_36 {
            return manifest;
        }
        let (usual, older) = (r#"["nodes/pods"]"#, r#"["nodes/pods", "nodes/proxy"]"#);
        assert_eq!(manifest.matches(usual).count(), 1);
        manifest.replace(usual, older)
    }

    pub(crate) fn wait_ready(&self) {
        self.cluster
            .kubectl(&[
                "-n",
                USHER,
                "rollout",
                "status",
                "daemonset/usher",
                // After an outage of the API server all pods of the node count as not ready, and the kubelet updates that
                // late.
                "--timeout=180s",
            ])
            .unwrap();
    }

    /// Removes the agent, and waits until it is gone. The CNI plugin stays, as without a working API server: the agent
    /// ends before its DaemonSet is deleted.
    pub(crate) fn remove_agent(&self) {
        let nowhere = r#"{"spec":{"template":{"spec":{"nodeSelector":{"test/agents":"none"}}}}}"#;
        let patch = ["-n", USHER, "patch", "daemonset", "usher", "-p", nowhere];
        self.cluster.kubectl(&patch).unwrap();
        until("the end of the agent", || {
            self.agent_pids().is_empty().then_some(())
        });
        let args = [
            "-n",
            USHER,
            "delete",
            "daemonset",
            "usher",
            "--cascade=foreground",
            "--wait",
        ];
        self.cluster.kubectl(&args).unwrap();
        until("the end of the agent", || {
            self.agent_pids().is_empty().then_some(())
        });
    }

    /// Sets the Node's mode for all capabilities, and waits until the agent applies it.
    pub(crate) fn mode(&self, mode: &str) {
        self.annotate_node(&format!("usher.dev/mode={mode}"));
        until("the agent to take its mode", || {
            let lines = self.log();
            let last = lines.iter().rfind(|line| line.0.get("quit").is_some())?;
            let capabilities = ["quit", "hold", "linger"];
            let applied = capabilities.iter().all(|one| last.text(one) == mode);
            applied.then_some(())
        });
        until("the CNI plugin as the mode wants it", || {
            (self.announces() == (mode == "enforce")).then_some(())
        });
    }

    /// Sets or removes `usher.dev/mode` on the Node. Removes the annotations that override it.
    pub(crate) fn annotate_node(&self, mode: &str) {
        let node = self.cluster.node_name();
        let overrides = ["usher.dev/quit-", "usher.dev/hold-", "usher.dev/linger-"];
        let args = [
            &["annotate", "--overwrite", "node", node, mode],
            &overrides[..],
        ]
        .concat();
        self.cluster.kubectl(&args).unwrap();
    }

    /// Whether the node's network configuration has the plugin.
    pub(crate) fn announces(&self) -> bool {
        let root = self.cluster.node_root().expect("the node is up");
        let files = fs::read_dir(root.join("etc/cni/net.d")).unwrap();
        let mut texts = files
            .flatten()
            .filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.any(|text| text.contains("\"usher-cni\""))
    }

    pub(crate) fn namespace(&'static self, test: &str) -> Namespace {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("{test}-{}-{number}", std::process::id());
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.cluster.apply(&object).unwrap();
        let account = ["-n", &name, "get", "serviceaccount", "default"];
        until("the namespace's account", || {
            self.cluster.kubectl(&account).ok()
        });
        Namespace { lab: self, name }
    }

    /// Pids of the agent, in the node's pid namespace.
    pub(crate) fn agent_pids(&self) -> Vec<String> {
        let holders = self.holder_pids();
        let mut pids = self.pgrep(&["-x", "usher-agent"]);
        pids.retain(|pid| !holders.contains(pid));
        pids
    }

    /// Pids of the holder: there is one once a pod has requested it.
    pub(crate) fn holder_pids(&self) -> Vec<String> {
        self.pgrep(&["-f", "^[^ ]+ hold-starts"])
    }

    /// The processes of the node that `pgrep` finds.
    pub(crate) fn pgrep(&self, what: &[&str]) -> Vec<String> {
        // `pgrep` fails if it finds no process.
        let found = self.cluster.in_node(&[&["pgrep"], what].concat());
        found
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }
}

/// The manifest with the profile instead of the runtime's.
fn filtered() -> String {
    let manifest = fs::read_to_string(MANIFEST).unwrap();
    let (usual, narrow) = (
        "seccompProfile:\n              type: RuntimeDefault",
        format!(
            "seccompProfile:\n              type: Localhost\n              localhostProfile: {PROFILE_NAME}"
        ),
    );
    assert_eq!(manifest.matches(usual).count(), 1);
    manifest.replace(usual, &narrow)
}
