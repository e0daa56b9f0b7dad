//! The measured cluster, with a namespace of its own.

use std::process;

use serde_json::json;
use usher_cluster::{Cluster, versions::versions};
use usher_tests::record::Record;

const CLUSTER: &str = "USHER_TEST_CLUSTER";

pub(crate) struct Place {
    pub(crate) cluster: Cluster,
    pub(crate) namespace: String,
}

impl Place {
    /// None if no cluster is named; then the reason has been printed.
    ///
    /// # Panics
    ///
    /// If none is named and `CI=true` is set.
    pub(crate) fn open() -> Option<Self> {
        let Ok(name) = std::env::var(CLUSTER) else {
            let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(
                !pipeline,
                "{CLUSTER} names no cluster, and CI=true forbids to skip"
            );
            println!("SKIPPED: {CLUSTER} names no cluster; `cargo xtask bench` makes one");
            return None;
        };
        let cluster = Cluster::new(&name).unwrap();
        let namespace = format!("bench-{}", process::id());
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        cluster.apply(&object).unwrap();
        let place = Self { cluster, namespace };
        place.wait_for_account();
        Some(place)
    }

    /// Records the versions.
    pub(crate) fn versions(&self, record: &mut Record) {
        for (of, version) in versions(&self.cluster).unwrap() {
            record.version(&of, &version);
        }
    }

    /// No pod can be created before the namespace has a service account.
    fn wait_for_account(&self) {
        let exists = ["-n", &self.namespace, "wait", "--for=create"];
        let account = ["serviceaccount/default", "--timeout=60s"];
        let wait = [&exists[..], &account].concat();
        self.cluster.kubectl(&wait).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let delete = ["delete", "namespace", &self.namespace, "--wait=false"];
        // The cluster may be gone.
        self.cluster.kubectl(&delete).ok();
    }
}
