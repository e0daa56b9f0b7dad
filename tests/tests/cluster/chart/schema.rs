//! The chart's output, for every platform and with all options, against the schemas of this API server.
//!
//! kubeconform reads a JSON schema for each kind. The API server's are definitions in one document (OpenAPI v2): each
//! kind gets a file with all definitions that it refers to, closed, so that an unknown field is an error. [`OTHERS`]
//! names the kinds of resources that this cluster does not have: the chart's own tests check those.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Map, Value, json};
use usher_cluster::{Cluster, programs, progress::output};

use super::release::{CHART, helm};
use crate::lab;

/// Kinds of the Prometheus Operator and of OpenShift.
const OTHERS: &str = "PodMonitor,PrometheusRule,SecurityContextConstraints";
/// The names in the chart's values.
const PLATFORMS: [&str; 15] = [
    "",
    "kubeadm",
    "kind",
    "k3s",
    "k3d",
    "rke2",
    "k0s",
    "eks",
    "aks",
    "gke",
    "openshift",
    "microk8s",
    "minikube",
    "talos",
    "bottlerocket",
];
/// Every option that is disabled by default, and one of each value that can be set.
const EVERYTHING: [&str; 38] = [
    "preflight.enabled=true",
    "global.imageRegistry=registry.example",
    "global.imagePullSecrets[0].name=mirror",
    "commonLabels.team=a",
    "serviceAccount.name=agent",
    "revisionHistoryLimit=3",
    "metrics.podMonitor.namespace=monitoring",
    "metrics.podMonitor.labels.release=prometheus",
    "metrics.podMonitor.jobLabel=app",
    "metrics.rules.namespace=monitoring",
    "metrics.rules.runbookBase=https://git.example/usher",
    "namespace.create=true",
    "config.ladder.settle=3s",
    "kubelet.certificate=/var/lib/kubelet/pki/kubelet.crt",
    "kubelet.nodesProxy=true",
    "startupTaint.enabled=true",
    "resourceQuota.enabled=true",
    "metrics.bindAddress=$(HOST_IP):9643",
    "healthProbe.port=9645",
    "metrics.scrapeAnnotations=true",
    "metrics.podMonitor.enabled=true",
    "metrics.rules.enabled=true",
    "metrics.dashboards.enabled=true",
    "imagePullSecrets[0].name=registry",
    "serviceAccount.annotations.note=a",
    "cni.conf=10-calico.conflist",
    "podLabels.team=a",
    "podAnnotations.note=a",
    "nodeSelector.pool=a",
    "seLinuxOptions.type=spc_t",
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=a",
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
    "extraEnv[0].name=A",
    "extraEnv[0].value=a",
    "extraVolumes[0].name=a",
    "extraVolumes[0].hostPath.path=/a",
    "extraVolumeMounts[0].name=a",
    "extraVolumeMounts[0].mountPath=/a",
];

/// JSON schemas of a cluster's kinds, in a directory that is removed on drop.
struct Schemas(PathBuf);

impl Schemas {
    fn of(cluster: &Cluster) -> Self {
        let text = cluster.kubectl(&["get", "--raw", "/openapi/v2"]).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let definitions = document["definitions"].as_object().unwrap();
        let schemas =
            Self(std::env::temp_dir().join(format!("usher-schemas-{}", std::process::id())));
        fs::create_dir_all(&schemas.0).unwrap();
        for (name, definition) in definitions {
            let kinds = definition["x-kubernetes-group-version-kind"].as_array();
            for kind in kinds.into_iter().flatten() {
                let of = |key: &str| kind[key].as_str().unwrap_or_default();
                let (group, version) = (of("group"), of("version"));
                // kubeconform uses the version as the name of the core group.
                let group = if group.is_empty() { version } else { group };
                let file = format!("{group}_{version}_{}.json", of("kind").to_lowercase());
                let schema = alone(definitions, name);
                fs::write(schemas.0.join(file), schema.to_string()).unwrap();
            }
        }
        schemas
    }

    /// The errors in objects, from kubeconform.
    fn judge(&self, kubeconform: &Path, objects: &str) -> Result<String, String> {
        let files = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json";
        let location = self.0.join(files).display().to_string();
        let mut judge = Command::new(kubeconform)
            .args(["-strict", "-summary", "-skip", OTHERS])
            .args(["-schema-location", &location])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = judge.stdin.take().unwrap();
        stdin.write_all(objects.as_bytes()).unwrap();
        drop(stdin);
        let done = judge.wait_with_output().unwrap();
        let output =
            [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let output = output.concat();
        if done.status.success() {
            Ok(output)
        } else {
            Err(output)
        }
    }
}

impl Drop for Schemas {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A definition with all that it refers to.
fn alone(definitions: &Map<String, Value>, name: &str) -> Value {
    let (mut wanted, mut found) = (vec![name.to_owned()], Map::new());
    while let Some(name) = wanted.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let mut definition = definitions[&name].clone();
        let mut named = BTreeSet::new();
        close(&mut definition, &mut named);
        found.insert(name, definition);
        wanted.extend(named);
    }
    json!({ "$ref": format!("#/definitions/{name}"), "definitions": found })
}

/// Objects accept no other keys, and whole numbers may replace texts if Kubernetes permits it.
fn close(schema: &mut Value, named: &mut BTreeSet<String>) {
    if let Some(at) = schema["$ref"].as_str() {
        named.insert(at.trim_start_matches("#/definitions/").to_owned());
    }
    if schema["format"] == "int-or-string" {
        *schema = json!({ "type": ["string", "integer"] });
    }
    if schema["properties"].is_object() && schema.get("additionalProperties").is_none() {
        schema["additionalProperties"] = json!(false);
    }
    match schema {
        Value::Object(all) => all.values_mut().for_each(|below| close(below, named)),
        Value::Array(all) => all.iter_mut().for_each(|below| close(below, named)),
        _ => {}
    }
}

fn rendered(cluster: &Cluster, platform: &str, values: &[&str]) -> String {
    let platform = format!("platform={platform}");
    let image = "image.repository=usher.test/usher-agent";
    let values = [values, &[platform.as_str(), image]].concat();
    let sets = values.iter().flat_map(|value| ["--set", value]);
    let mut helm = helm(cluster);
    helm.args(["template", "usher", CHART, "--kube-version", "1.36.0"]);
    output(helm.args(sets)).unwrap()
}

#[test]
fn every_platform_renders_valid_objects() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let (schemas, kubeconform) = (Schemas::of(&lab.cluster), programs::kubeconform().unwrap());
    for platform in PLATFORMS {
        for values in [&[][..], &EVERYTHING] {
            let objects = rendered(&lab.cluster, platform, values);
            match schemas.judge(&kubeconform, &objects) {
                Ok(output) => println!("{platform:>12} {}", output.trim()),
                Err(output) => panic!("{platform}: {output}"),
            }
        }
    }
    let manifest = fs::read_to_string(lab::MANIFEST).unwrap();
    schemas.judge(&kubeconform, &manifest).unwrap();
    // An invalid field is reported.
    let misspelt = manifest.replace("readOnlyRootFilesystem:", "readOnlyRootFileSystem:");
    let output = schemas.judge(&kubeconform, &misspelt).unwrap_err();
    assert!(output.contains("readOnlyRootFileSystem"), "{output}");
}

#[test]
fn manifests_match_kustomize() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let folder = Path::new(lab::MANIFEST)
        .parent()
        .unwrap()
        .display()
        .to_string();
    let apply = ["apply", "-k", &folder, "--dry-run=server", "-o", "name"];
    let names = lab.cluster.kubectl(&apply).unwrap();
    // Kustomize sorts by kind.
    let kinds: BTreeSet<&str> = names.lines().collect();
    let expected = [
        "namespace/usher",
        "serviceaccount/usher",
        "clusterrole.rbac.authorization.k8s.io/usher",
        "clusterrolebinding.rbac.authorization.k8s.io/usher",
        "role.rbac.authorization.k8s.io/usher",
        "rolebinding.rbac.authorization.k8s.io/usher",
        "daemonset.apps/usher",
    ];
    assert_eq!(kinds, BTreeSet::from(expected));
}
