//! The deletions of pods, with the times of their watch events.

use std::{
    collections::BTreeMap,
    io::BufReader,
    process::{Child, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Deserializer, Value};

use crate::place::Place;

const LIMIT: Duration = Duration::from_secs(180);

/// A watch on the pods of the namespace, by kubectl. It ends on drop.
pub(crate) struct Watch {
    kubectl: Child,
    events: Receiver<(Instant, Value)>,
}

impl Watch {
    pub(crate) fn begin(place: &Place) -> Self {
        let args = ["-n", &place.namespace, "get", "pods", "-o", "json"];
        let mut kubectl = place
            .cluster
            .kubectl_command()
            .args(args)
            .args(["--watch", "--output-watch-events"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(kubectl.stdout.take().unwrap());
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            let values = Deserializer::from_reader(stdout).into_iter();
            for value in values.map_while(Result::ok) {
                if sender.send((Instant::now(), value)).is_err() {
                    break;
                }
            }
        });
        Self { kubectl, events }
    }

    /// From the time at which the API server marks a pod for deletion until it removes it.
    pub(crate) fn deletion(&self, pod: &str) -> Duration {
        let begun = self.until(pod, |event| {
            event["object"]["metadata"]["deletionTimestamp"].is_string()
        });
        self.until(pod, |event| event["type"] == "DELETED") - begun
    }

    /// The same of several pods, in the order of their names.
    pub(crate) fn deletions(&self, pods: &[String]) -> BTreeMap<String, Duration> {
        let end = Instant::now() + LIMIT;
        let (mut begun, mut took) = (BTreeMap::new(), BTreeMap::new());
        while took.len() < pods.len() {
            let left = end.saturating_duration_since(Instant::now());
            let (at, event) = self.events.recv_timeout(left).unwrap();
            let object = &event["object"]["metadata"];
            let name = object["name"].as_str().unwrap_or_default().to_owned();
            if !pods.contains(&name) || !object["deletionTimestamp"].is_string() {
                continue;
            }
            let begun = *begun.entry(name.clone()).or_insert(at);
            if event["type"] == "DELETED" {
                took.insert(name, at - begun);
            }
        }
        took
    }

    fn until(&self, pod: &str, fits: impl Fn(&Value) -> bool) -> Instant {
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (at, event) = self.events.recv_timeout(left).unwrap();
            if event["object"]["metadata"]["name"] == pod && fits(&event) {
                return at;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Either call fails only if it has exited already.
        self.kubectl.kill().ok();
        self.kubectl.wait().ok();
    }
}
