//! The strategic merge patch that makes a DaemonSet's agents run `--cleanup`.
//!
//! It sets the variable of `--cleanup`, and mounts the parent of the run directory, because a container can empty a mount
//! point but not remove it. The patched pods run only for seconds.

use std::path::Path;

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Container, PodSpec},
};
use serde_json::{Value, json};

pub(super) const VARIABLE: &str = "USHER_CLEANUP";
const RUN_DIR_VARIABLE: &str = "USHER_RUN_DIR";
/// The default run directory.
const RUN_DIR: &str = "/run/usher";
/// The mount point of its parent.
const ABOVE: &str = "/host/run-above";

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the DaemonSet has no container {name:?}")]
    NoAgent { name: String },
}

/// Whether the agent of this spec runs `--cleanup`.
pub(super) fn cleans_up(spec: &PodSpec, container: &str) -> bool {
    let agent = spec.containers.iter().find(|other| other.name == container);
    agent.is_some_and(|agent| variable(agent, VARIABLE) == Some("true"))
}

/// The patch; None if the DaemonSet already has it.
pub(super) fn plan(daemonset: &DaemonSet, container: &str) -> Result<Option<Value>, Error> {
    let spec = daemonset.spec.as_ref();
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    let no_agent = || Error::NoAgent {
        name: container.to_owned(),
    };
    let pod = pod.ok_or_else(no_agent)?;
    if cleans_up(pod, container) {
        return Ok(None);
    }
    let agent = pod.containers.iter().find(|other| other.name == container);
    let agent = agent.ok_or_else(no_agent)?;
    let mut patched = json!({"name": container, "env": [{"name": VARIABLE, "value": "true"}]});
    let mut pod_spec = json!({});
    if let Some(run) = Run::find(pod, agent) {
        patched["env"]
            .as_array_mut()
            .into_iter()
            .for_each(|env| env.push(json!({"name": RUN_DIR_VARIABLE, "value": run.place})));
        patched["volumeMounts"] = json!([
            {"mountPath": run.mount, "$patch": "delete"},
            {"mountPath": ABOVE, "name": run.volume},
        ]);
        pod_spec["volumes"] = json!([
            {"name": run.volume, "hostPath": {"path": run.above, "type": "Directory"}},
        ]);
    }
    pod_spec["containers"] = json!([patched]);
    Ok(Some(json!({"spec": {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}},
        "template": {"spec": pod_spec},
    }})))
}

/// The run directory and its parent.
struct Run {
    volume: String,
    mount: String,
    above: String,
    place: String,
}

impl Run {
    /// None if it is not a hostPath, or is directly below `/`: the agent must not mount the host's root.
    fn find(pod: &PodSpec, agent: &Container) -> Option<Self> {
        let mount = variable(agent, RUN_DIR_VARIABLE).unwrap_or(RUN_DIR);
        let mounts = agent.volume_mounts.iter().flatten();
        let volume = &mounts.clone().find(|other| other.mount_path == mount)?.name;
        // The patch would also change another mount of the volume.
        let users = mounts.filter(|other| other.name == *volume).count();
        let volumes = pod.volumes.as_deref().unwrap_or_default();
        let host = volumes.iter().find(|other| other.name == *volume)?;
        let path = Path::new(&host.host_path.as_ref()?.path);
        let above = path.parent().filter(|above| above.parent().is_some())?;
        let name = path.file_name()?.to_str()?;
        (users == 1).then(|| Self {
            volume: volume.clone(),
            mount: mount.to_owned(),
            above: above.display().to_string(),
            place: format!("{ABOVE}/{name}"),
        })
    }
}

fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    let variables = container.env.as_deref().unwrap_or_default();
    let found = variables.iter().find(|variable| variable.name == name)?;
    found.value.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemonset(mount: &Value, volume: &Value, env: &Value) -> DaemonSet {
        let template = json!({"spec": {
            "containers": [{"name": "other"}, {"name": "agent", "env": env, "volumeMounts": mount}],
            "volumes": volume,
        }});
        serde_json::from_value(json!({"spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": template,
        }}))
        .unwrap()
    }

    fn usual(env: &Value) -> DaemonSet {
        let mount =
            json!([{"name": "run", "mountPath": "/run/usher"}, {"name": "x", "mountPath": "/x"}]);
        let volume = json!([{"name": "x", "emptyDir": {}}, {"name": "run", "hostPath": {"path": "/run/usher"}}]);
        daemonset(&mount, &volume, env)
    }

    #[test]
    fn patch_covers_all_nodes_at_once_and_mounts_the_parent_directory() {
        let patch = plan(&usual(&json!([])), "agent").unwrap().unwrap();
        let spec = &patch["spec"];
        let strategy = &spec["updateStrategy"]["rollingUpdate"];
        assert_eq!(strategy, &json!({"maxUnavailable": "100%", "maxSurge": 0}));
        let expected = json!({
            "containers": [{
                "name": "agent",
                "env": [
                    {"name": "USHER_CLEANUP", "value": "true"},
                    {"name": "USHER_RUN_DIR", "value": "/host/run-above/usher"},
                ],
                "volumeMounts": [
                    {"mountPath": "/run/usher", "$patch": "delete"},
                    {"mountPath": "/host/run-above", "name": "run"},
                ],
            }],
            "volumes": [{"name": "run", "hostPath": {"path": "/run", "type": "Directory"}}],
        });
        assert_eq!(spec["template"]["spec"], expected);
    }

    #[test]
    fn second_patch_is_empty() {
        let env = json!([{"name": "USHER_CLEANUP", "value": "true"}]);
        assert!(plan(&usual(&env), "agent").unwrap().is_none());
        let env = json!([{"name": "USHER_CLEANUP", "value": "false"}]);
        assert!(plan(&usual(&env), "agent").unwrap().is_some());
    }

    #[test]
    fn directories_that_cannot_be_removed_keep_their_mount() {
        let mount = json!([{"name": "run", "mountPath": "/run/usher"}]);
        let twice =
            json!([{"name": "run", "mountPath": "/run/usher"}, {"name": "run", "mountPath": "/y"}]);
        let host = |path: &str| json!([{"name": "run", "hostPath": {"path": path}}]);
        let own = json!([{"name": "run", "emptyDir": {}}]);
        for (mount, volume) in [
            (&mount, host("/usher")),
            (&mount, own),
            (&mount, json!([])),
            (&json!([]), host("/run/usher")),
            (&twice, host("/run/usher")),
        ] {
            let daemonset = daemonset(mount, &volume, &json!([]));
            let patch = plan(&daemonset, "agent").unwrap().unwrap();
            let spec = &patch["spec"]["template"]["spec"];
            assert!(spec["volumes"].is_null(), "{volume}");
            assert!(spec["containers"][0]["volumeMounts"].is_null(), "{volume}");
        }
    }

    #[test]
    fn configured_run_dir_is_used() {
        let mount = json!([{"name": "run", "mountPath": "/r"}]);
        let volume = json!([{"name": "run", "hostPath": {"path": "/var/lib/agents/usher-x"}}]);
        let env = json!([{"name": "USHER_RUN_DIR", "value": "/r"}]);
        let patch = plan(&daemonset(&mount, &volume, &env), "agent").unwrap();
        let spec = &patch.unwrap()["spec"]["template"]["spec"];
        assert_eq!(spec["volumes"][0]["hostPath"]["path"], "/var/lib/agents");
        let env = &spec["containers"][0]["env"];
        assert_eq!(env[1]["value"], "/host/run-above/usher-x");
    }

    #[test]
    fn foreign_daemonset_is_rejected() {
        assert!(plan(&usual(&json!([])), "usher").is_err());
        assert!(plan(&DaemonSet::default(), "agent").is_err());
    }
}
