//! The load, from a pod in the mesh or one outside of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use usher_cluster::{
    podlog::last_value,
    workload::{app_container, pod},
};
use usher_tests::wait::found_within;

use crate::{
    PATIENCE,
    arm::{Proxy, labels, metadata_annotations},
    place::Place,
};

/// Longer than a request of the client may take: its limits for the connect and the response.
const LAST: Duration = Duration::from_secs(11);
/// The number of printed failures.
const FEW: usize = 5;

pub(crate) struct Client<'place> {
    place: &'place Place,
    name: String,
}

/// Requests from the start of a client.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) sent: u32,
    pub(crate) failed: u32,
}

impl<'place> Client<'place> {
    /// Sends requests to `HOST:PORT` as soon as one has succeeded.
    pub(crate) fn begin(
        place: &'place Place,
        name: &str,
        proxy: Proxy,
        url: &str,
        rate: u32,
    ) -> Self {
        let rate = rate.to_string();
        let args = [
            "--get",
            url,
            "--retry-for",
            "120s",
            "--load",
            url,
            "--rate",
            &rate,
        ];
        let mut object = pod(
            name,
            &place.namespace,
            "Never",
            &[app_container("app", &args)],
        );
        object["metadata"]["labels"] = labels(name, proxy);
        object["metadata"]["annotations"] = Value::Object(metadata_annotations(proxy));
        object["metadata"]["annotations"]["usher.dev/quit"] = json!("false");
        place.cluster.apply(&object).unwrap();
        let client = Self {
            place,
            name: name.to_owned(),
        };
        client.counts_after(UNIX_EPOCH);
        client
    }

    /// The totals, after all earlier requests have completed.
    pub(crate) fn counts(&self) -> Counts {
        let counts = self.counts_after(SystemTime::now() + LAST);
        let log = self.log();
        let failures = log
            .lines()
            .filter(|line| line.starts_with("app-load-failed"));
        failures
            .take(FEW)
            .for_each(|line| println!("  {}: {line}", self.name));
        counts
    }

    fn counts_after(&self, after: SystemTime) -> Counts {
        let after = after.duration_since(UNIX_EPOCH).unwrap().as_nanos();
        found_within(PATIENCE, &format!("the counts of {}", self.name), || {
            let log = self.log();
            let number = |field| last_value(&log, "app-load", field);
            (last_value::<u128>(&log, "app-load", "unix_ns")? >= after).then_some(Counts {
                sent: number("sent")?,
                failed: number("failed")?,
            })
        })
    }

    /// Empty as long as there is none.
    fn log(&self) -> String {
        let logs = ["-n", &self.place.namespace, "logs", &self.name, "-c", "app"];
        self.place.cluster.kubectl(&logs).unwrap_or_default()
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let delete = ["-n", &self.place.namespace, "delete", "pod", &self.name];
        let how = ["--grace-period=1", "--wait=false"];
        // The cluster may be gone.
        self.place
            .cluster
            .kubectl(&[&delete[..], &how].concat())
            .ok();
    }
}
