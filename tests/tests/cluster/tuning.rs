//! Settings in Namespaces, in the ConfigMap and in a sidecar itself.

use std::fs;

use jiff::Timestamp;
use serde_json::{Value, json};
use usher_cluster::workload::{app_container, envoy_container, istio_proxy_container, job, pod};

use crate::{
    lab::{self, Lab, USHER, until},
    workload::{container_ends, job_becomes, meshed_job, sidecar_is_untouched},
};

#[test]
fn namespace_label_opts_out() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("opted-out");
    let label = ["label", "namespace", &namespace, "usher.dev/quit=false"];
    lab.cluster.kubectl(&label).unwrap();
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &["--run-for", "500ms"]))
        .unwrap();
    let reason = lab.decided(&namespace, "skipped");
    assert!(reason.text("reason").contains("usher.dev/quit"));
    let pod = container_ends(&lab, &namespace, "app");
    assert!(sidecar_is_untouched(&pod));
    assert_eq!(lab.count(&namespace, "quit-accepted"), 0);
}

/// The entries of the agent's timeline.
fn timeline(lab: &Lab) -> Vec<Value> {
    let root = lab.cluster.node_root().unwrap();
    let text = fs::read_to_string(root.join("run/usher/timeline.jsonl")).unwrap_or_default();
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The real proxy reports its version if its tag does not.
#[test]
fn proxy_without_a_version_tag_is_queried() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("latest");
    let mut proxy = istio_proxy_container();
    let image = proxy["image"].as_str().unwrap().to_owned();
    let repository = image.rsplit_once(':').unwrap().0;
    let latest = format!("{repository}:latest");
    let tag = [
        "ctr", "-n", "k8s.io", "images", "tag", "--force", &image, &latest,
    ];
    lab.cluster.in_node(&tag).unwrap();
    proxy["image"] = json!(latest);
    // The app of a slow node would end before Envoy replies.
    let args = ["--await-port", "15000", "--run-for", "3000ms"];
    let app = app_container("app", &args);
    lab.cluster
        .apply(&job("job", &namespace, "Never", &[app, proxy]))
        .unwrap();
    let entry = until("the proxy to tell its version", || {
        // The agent queries an image once: perhaps in an earlier run on this cluster.
        let mut entries = timeline(&lab).into_iter();
        entries.find(|entry| entry["decision"] == "version-reported")
    });
    let reason = entry["reason"].as_str().unwrap();
    assert!(reason.contains("version 1.31"), "{reason}");
    job_becomes(&lab, &namespace, "Complete");
}

/// Makes the kubelet update the agent's ConfigMap now, and not within the next
/// minute.
fn nudge(lab: &Lab, number: u32) {
    let annotation = format!("test/nudge={number}");
    let args = [
        "-n",
        USHER,
        "annotate",
        "--overwrite",
        "pods",
        "--all",
        &annotation,
    ];
    lab.cluster.kubectl(&args).unwrap();
}

/// Applies the ConfigMap, and waits until the agent has logged the message.
fn configure(lab: &Lab, number: u32, text: &str, message: &str) -> lab::Line {
    let since = Timestamp::now();
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "usher", "namespace": USHER },
        "data": { "config.yaml": text },
    });
    lab.cluster.apply(&object).unwrap();
    nudge(lab, number);
    until(message, || {
        let mut lines = lab.log_since(since).into_iter();
        lines.find(|line| line.text("message") == message)
    })
}

#[test]
fn config_map_reloads_without_a_restart_and_a_broken_one_is_rejected() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let recipe = "recipes:\n  - name: envoy\n    recognize: [{image: [envoyproxy/envoy]}]\n    quit: [{signal: SIGTERM, code: 0}]\n";
    configure(&lab, 1, recipe, "loaded the configuration");
    let broken = recipe.replace("SIGTERM", "SIGKILL");
    let line = configure(&lab, 2, &broken, "kept the old configuration");
    let error = line.text("error");
    let place = "/etc/usher/config.yaml:4:21: recipes[0].quit[0].signal: ";
    assert!(error.starts_with(place), "{error}");
    let namespace = lab.namespace("config-map");
    let containers = [
        app_container("app", &["--run-for", "500ms"]),
        envoy_container("envoy"),
    ];
    lab.cluster
        .apply(&pod("pod", &namespace, "Never", &containers))
        .unwrap();
    let accepted = lab.decided(&namespace, "quit-accepted");
    assert!(accepted.text("reason").starts_with("SIGTERM"));
    container_ends(&lab, &namespace, "envoy");
    let args = ["-n", USHER, "delete", "configmap", "usher"];
    lab.cluster.kubectl(&args).unwrap();
    configure(&lab, 3, "", "loaded the configuration");
    lab.cluster.kubectl(&args).unwrap();
}

/// The real agent drains where it is requested to, and gets the quit request after that.
#[test]
fn mesh_drains_first_when_configured() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("drain");
    // A drain is requested once: the status port has to be open.
    let args = ["--await-port", "15020", "--run-for", "1500ms"];
    let mut object = meshed_job(&namespace, "Never", &args);
    let template = &mut object["spec"]["template"]["metadata"];
    template["annotations"]["usher.dev/drain"] = json!("1s");
    lab.cluster.apply(&object).unwrap();
    job_becomes(&lab, &namespace, "Complete");
    let at = |decision: &str| {
        let line = lab.decided(&namespace, decision);
        line.0["since_exit_ms"].as_f64().unwrap()
    };
    let (drains, quits) = (at("drain-accepted"), at("quit-accepted"));
    assert!(quits - drains >= 1000.0, "{drains} ms, {quits} ms");
}

/// No recipe matches the name and image of this real Envoy, so it would be an app. An annotation of
/// the pod sets its kind and its exit.
#[test]
fn annotation_names_a_sidecar() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("named");
    let containers = [
        app_container("app", &["--run-for", "1000ms"]),
        envoy_container("front"),
    ];
    let mut object = job("job", &namespace, "Never", &containers);
    object["spec"]["template"]["metadata"]["annotations"] =
        json!({ "usher.dev/sidecars": "front=POST :9901/quitquitquit" });
    lab.cluster.apply(&object).unwrap();
    job_becomes(&lab, &namespace, "Complete");
    let accepted = lab.decided(&namespace, "quit-accepted");
    assert!(accepted.text("reason").contains("(recipe annotation)"));
}
