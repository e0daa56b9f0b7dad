//! Pods in the mesh while istiod is stopped: their proxies become ready when a test resumes it.

use std::{process, time::SystemTime};

use serde_json::Value;
use usher_cluster::{
    mesh::{ControlPlane, NAMESPACE, Paused, Variant, bind, unbind},
    podlog::{self, AppRun},
};

use crate::lab::{Lab, until};

/// A bare pod of this variant, with a name unlike those of other runs.
pub(super) fn pod(what: &str, variant: &Variant) -> Value {
    let name = format!("{what}-{}", process::id());
    let mut pod = variant.object(&name)["spec"]["template"].take();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["namespace"] = NAMESPACE.into();
    pod
}

/// Waiting pods. On drop they are removed, and istiod is resumed.
pub(super) struct Waiting {
    lab: &'static Lab,
    names: Vec<String>,
    istiod: Option<Paused<'static>>,
}

impl Waiting {
    /// Creates the pods, stops istiod, and only then binds them to their node.
    pub(super) fn begin(lab: &'static Lab, pods: &[Value]) -> Self {
        let istiod = ControlPlane::find(&lab.cluster).unwrap();
        let names = pods.iter().map(|pod| &pod["metadata"]["name"]);
        let mut waiting = Self {
            lab,
            names: names
                .map(|name| name.as_str().unwrap().to_owned())
                .collect(),
            istiod: None,
        };
        for pod in pods {
            let mut pod = pod.clone();
            unbind(&mut pod["spec"]);
            // After a long outage, istiod is out of its Service until it is probed again, and admits no pod.
            until("istiod to admit a pod", || lab.cluster.apply(&pod).ok());
        }
        waiting.istiod = Some(istiod.pause().unwrap());
        for name in &waiting.names {
            bind(&lab.cluster, name).unwrap();
        }
        waiting
    }

    pub(super) fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    /// The only pod, from the API server.
    pub(super) fn pod(&self) -> Value {
        let get = ["-n", NAMESPACE, "get", "pod", self.name(0)];
        self.lab.cluster.kubectl_json(&get).unwrap()
    }

    /// Waits until the start of a pod's app is held.
    pub(super) fn held(&self, number: usize) -> String {
        super::decided(self.lab, self.name(number), "start-held")
    }

    /// The start times of all runs of the only pod's app.
    pub(super) fn runs(&self) -> Vec<SystemTime> {
        podlog::first_instructions(&self.lab.cluster, &self.pod(), "app").unwrap()
    }

    /// Waits for the app's first instruction.
    pub(super) fn has_run(&self) -> SystemTime {
        until("the app's first instruction", || {
            self.runs().first().copied()
        })
    }

    /// Resumes istiod.
    pub(super) fn proceed(&mut self) {
        self.istiod.take().unwrap().resume().unwrap();
    }

    /// The first run of the only pod's app, once it has ended.
    pub(super) fn ended(&self) -> AppRun {
        self.ended_times(1).remove(0)
    }

    /// The runs of the only pod's app, once this number has ended.
    pub(super) fn ended_times(&self, times: usize) -> Vec<AppRun> {
        let pod = self.pod();
        until("the end of the app", || {
            let runs = podlog::runs(&self.lab.cluster, &pod, "app").unwrap();
            (runs.len() >= times).then_some(runs)
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.istiod = None;
        for name in &self.names {
            let delete = ["-n", NAMESPACE, "delete", "pod", name, "--wait=false"];
            // A test may have deleted it.
            self.lab.cluster.kubectl(&delete).ok();
        }
    }
}
