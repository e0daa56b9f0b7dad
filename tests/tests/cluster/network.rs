//! The node's network configuration, on the real containerd: usher's entry
//! is added and stays, despite other writers, and pods start all the time.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use serde_json::Value;
use usher_cluster::{
    Cluster,
    mesh::{Proxy, Variant, run_job},
};

use crate::lab::{self, Lab, until};

/// The number of rewrites, and the time between them.
const REWRITES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(100);

/// The configuration that containerd uses: the only one of this node.
fn primary(cluster: &Cluster) -> PathBuf {
    let dir = cluster.node_root().unwrap().join("etc/cni/net.d");
    let files = fs::read_dir(&dir).unwrap().flatten();
    let mut lists = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|is| is == "conflist"));
    lists.next().expect("the node has a network")
}

/// The list without usher's entry.
fn without_usher(path: &Path) -> String {
    let mut list: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let plugins = list["plugins"].as_array_mut().unwrap();
    plugins.retain(|plugin| plugin["type"] != "usher-cni");
    list.to_string()
}

/// As other installers do: atomically, by rename in the same directory.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("conflist.tmp");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

/// A node without a network, until it is dropped.
struct NoNetwork {
    path: PathBuf,
    text: String,
}

impl NoNetwork {
    fn new(path: PathBuf) -> Self {
        let text = without_usher(&path);
        fs::remove_file(&path).unwrap();
        Self { path, text }
    }
}

impl Drop for NoNetwork {
    fn drop(&mut self) {
        lab::tidy(|| replace(&self.path, &self.text));
    }
}

/// Stops a thread that the scope of a test waits for, also when the test fails.
struct StopOnDrop<'flag>(&'flag AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn announced(lab: &Lab) {
    until("usher's entry", || lab.announces().then_some(()));
}

/// An app in a mesh is held, and so gets a response.
fn serves(lab: &Lab) {
    let outcome = run_job(&lab.cluster, &Variant::new(Proxy::Last)).unwrap();
    assert!(!outcome.refused(), "{outcome:#?}");
    assert_eq!(outcome.app_exit_code(), Some(0), "{outcome:#?}");
}

#[test]
fn network_installed_after_usher_gets_the_entry() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.remove_agent();
    let no_network = NoNetwork::new(primary(&lab.cluster));
    lab.apply();
    // The agent is not ready: the Node's mode needs the plugin.
    until("the agent to wait for a network", || {
        let waits = "found no network configuration for the CNI plugin; waiting for one";
        let log = lab.log();
        log.iter()
            .any(|line| line.text("message") == waits)
            .then_some(())
    });
    assert!(!lab.announces());
    drop(no_network);
    announced(&lab);
    lab.wait_ready();
    serves(&lab);
}

#[test]
fn conflist_stays_valid_under_concurrent_writers() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let path = primary(&lab.cluster);
    let text = without_usher(&path);
    let (rewriting, read) = (AtomicBool::new(true), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while rewriting.load(Ordering::Relaxed) {
                // As a runtime reads it: the file may be replaced meanwhile,
                // and is never incomplete.
                let found = fs::read_to_string(&path).unwrap();
                let list: Value = serde_json::from_str(&found).unwrap();
                assert!(!list["plugins"].as_array().unwrap().is_empty());
                read.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Without the entry a hold may be late, so that its app is refused. Pods start all the same.
        let job = scope.spawn(|| run_job(&lab.cluster, &Variant::new(Proxy::Last)).unwrap());
        let reader = StopOnDrop(&rewriting);
        for _ in 0..REWRITES {
            replace(&path, &text);
            thread::sleep(BETWEEN);
        }
        drop(reader);
        job.join().unwrap();
    });
    assert!(read.into_inner() > REWRITES);
    announced(&lab);
    serves(&lab);
}
