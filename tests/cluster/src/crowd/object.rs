//! A pod of a crowd, as it is applied.

use serde_json::{Map, Value, json};

use super::{Crowd, PORT, SIDECAR, app_name, gate};
use crate::workload::{app_container, pod};

impl Crowd<'_> {
    pub(super) fn object(&self, name: &str) -> Value {
        let address = format!("127.0.0.1:{PORT}");
        let mut args = match self.like.wrapper {
            Some(every) => vec!["--until-ready", &address, every, "/usher-test-app"],
            None => Vec::new(),
        };
        args.extend(["--connect", &address]);
        let apps = (0..self.like.apps).map(|number| app_container(&app_name(number), &args));
        let mut containers: Vec<Value> = apps.collect();
        containers.push(sidecar(name));
        let mut pod = pod(name, &self.namespace, "Never", &containers);
        pod["metadata"]["labels"]["app"] = json!(self.name);
        pod["metadata"]["annotations"] = self.annotations();
        pod["spec"]["volumes"] =
            json!([{ "name": "gates", "hostPath": { "path": self.gates.in_node() } }]);
        pod
    }

    fn annotations(&self) -> Value {
        let mut annotations = Map::new();
        for (name, value) in [
            ("usher.dev/sidecars", format!("{SIDECAR}=SIGTERM")),
            ("usher.dev/hold-ports", format!("{SIDECAR}={PORT}")),
            ("usher.dev/quit", "false".to_owned()),
        ] {
            annotations.insert(name.to_owned(), value.into());
        }
        for (name, value) in &self.like.annotations {
            annotations.insert((*name).to_owned(), (*value).into());
        }
        annotations.into()
    }
}

fn sidecar(pod: &str) -> Value {
    let (file, port) = (format!("{}/{pod}", gate::IN_POD), PORT.to_string());
    let mut sidecar = app_container(SIDECAR, &["--await-file", &file, "--serve", &port]);
    sidecar["volumeMounts"] = json!([{ "name": "gates", "mountPath": gate::IN_POD }]);
    sidecar
}
