//! The cluster provides what the project's tests rely on: for developers who change the cluster.
//!
//! Needs root and explicit selection: `cargo test -p usher-cluster --test smoke -- --ignored --test-threads 1`.

#![expect(clippy::unwrap_used, reason = "a test panics")]

#[path = "smoke/nodes.rs"]
mod nodes;

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use usher_cluster::{
    Cluster, Component, Config, Layout, Member, Signal,
    programs::Containerd,
    workload::{
        add_shared_directory, app_container, envoy_container, istio_proxy_container, job,
        native_sidecar,
    },
};

const NAMESPACE: &str = "default";

/// Removes the cluster even if a check fails.
struct Ended(Cluster);

impl Drop for Ended {
    fn drop(&mut self) {
        // The logs of the cluster are needed after a failure; `cargo xtask test` removes the cluster then.
        if !thread::panicking() {
            self.0.down().unwrap();
        }
    }
}

fn cluster(name: &str, layout: Layout, containerd: Containerd) -> Ended {
    let config = Config {
        cgroups: Some(layout),
        containerd: Some(containerd),
        ..Config::from_env(name).unwrap()
    };
    let cluster = Cluster::with(Config {
        state_dir: None,
        ..config
    })
    .unwrap();
    cluster.down().unwrap();
    Ended(cluster)
}

fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn complete(cluster: &Cluster, job: &str) {
    cluster
        .kubectl(&[
            "wait",
            "--for=condition=Complete",
            "--timeout=60s",
            &format!("job/{job}"),
        ])
        .unwrap();
}

/// The status of one container of a job's only pod.
fn container(cluster: &Cluster, job: &str, container: &str) -> Option<Value> {
    let pods = cluster
        .kubectl_json(&["get", "pods", "-l", &format!("job-name={job}")])
        .unwrap();
    let statuses = pods["items"][0]["status"]["containerStatuses"]
        .as_array()?
        .clone();
    statuses
        .into_iter()
        .find(|status| status["name"] == container)
}

/// The container's first process, by its pid inside the node.
fn pid(cluster: &Cluster, status: &Value) -> String {
    let id = status["containerID"]
        .as_str()
        .unwrap()
        .trim_start_matches("containerd://");
    let tasks = cluster.in_node(&["ctr", "tasks", "ls"]).unwrap();
    let line = tasks.lines().find(|line| line.starts_with(id)).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

/// Sends an HTTP POST to loopback in the network namespace of a process; the response may be lost with its sender.
fn post(cluster: &Cluster, pid: &str, port: u16, path: &str) -> bool {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'POST {path} HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n\\r\\n' >&3 && head -c 12 <&3"
    );
    cluster
        .in_node(&["nsenter", "--target", pid, "--net", "bash", "-c", &script])
        .is_ok()
}

fn jobs_work(cluster: &Cluster) {
    let short = |name: &str| app_container(name, &["--run-for", "200ms"]);
    let mut native = job("native", NAMESPACE, "Never", &[short("app")]);
    let pod = &mut native["spec"]["template"]["spec"];
    pod["initContainers"] = json!([native_sidecar(envoy_container("envoy"))]);
    let mut flaky = job(
        "flaky",
        NAMESPACE,
        "OnFailure",
        &[app_container(
            "app",
            &["--fail-times", "2", "--state", "/state/runs"],
        )],
    );
    flaky["spec"]["backoffLimit"] = json!(6);
    add_shared_directory(&mut flaky["spec"]["template"]["spec"], 0, "/state");
    let stuck = job(
        "stuck",
        NAMESPACE,
        "Never",
        &[short("app"), istio_proxy_container()],
    );
    for object in [
        &job("plain", NAMESPACE, "Never", &[short("app")]),
        &native,
        &flaky,
        &stuck,
    ] {
        cluster.apply(object).unwrap();
    }
    for name in ["plain", "native", "flaky"] {
        complete(cluster, name);
    }
    let flaky = container(cluster, "flaky", "app").unwrap();
    assert_eq!(flaky["restartCount"], json!(2));
    let log = cluster.kubectl(&["logs", "job/plain"]).unwrap();
    assert!(
        log.lines()
            .next()
            .unwrap()
            .starts_with("app-start unix_ns="),
        "{log}"
    );
    assert!(log.lines().last().unwrap().ends_with(" code=0"), "{log}");

    // The problem that the project solves.
    until("the end of the stuck job's app", || {
        container(cluster, "stuck", "app")
            .filter(|status| status["state"]["terminated"]["exitCode"] == json!(0))
    });
    let proxy = until("the proxy to run", || {
        container(cluster, "stuck", "istio-proxy")
            .filter(|status| status["state"]["running"].is_object())
    });
    let active = cluster
        .kubectl(&["get", "job", "stuck", "-o", "jsonpath={.status.active}"])
        .unwrap();
    assert_eq!(active, "1");
    let pid = pid(cluster, &proxy);
    until("the proxy's status port", || {
        post(cluster, &pid, 15020, "/quitquitquit").then_some(())
    });
    complete(cluster, "stuck");
}

fn plain_job_completes(cluster: &Cluster) {
    let app = app_container("app", &[]);
    cluster
        .apply(&job("plain", NAMESPACE, "Never", &[app]))
        .unwrap();
    complete(cluster, "plain");
}

fn healing_works(cluster: &Cluster) {
    for component in [
        Component::Kubelet,
        Component::Containerd,
        Component::ApiServer,
    ] {
        cluster.stop(component, Signal::SIGKILL).unwrap();
        assert!(!cluster.runs(component));
    }
    cluster.up().unwrap();
    assert!(
        cluster.status().components.iter().all(|(_, alive)| *alive),
        "{:?}",
        cluster.status()
    );
    cluster
        .apply(&job(
            "after",
            NAMESPACE,
            "Never",
            &[app_container("app", &[])],
        ))
        .unwrap();
    complete(cluster, "after");
}

/// The traces of a cluster on a machine.
fn traces(cluster: &Cluster, nodes: &[Member]) -> Vec<String> {
    let mut traces = Vec::new();
    if cluster.state_dir().exists() {
        traces.push(cluster.state_dir().display().to_string());
    }
    let mut groups = vec![Path::new("/sys/fs/cgroup").to_owned()];
    groups.extend(
        fs::read_dir("/sys/fs/cgroup")
            .unwrap()
            .flatten()
            .map(|entry| entry.path()),
    );
    traces.extend(
        groups
            .iter()
            .flat_map(|group| nodes.iter().map(|node| group.join(node.name())))
            .filter(|dir| dir.exists())
            .map(|dir| dir.display().to_string()),
    );
    let links = fs::read_dir("/sys/class/net")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    traces.extend(links.filter(|name| nodes.iter().any(|node| node.interface() == *name)));
    let state = cluster.state_dir().display().to_string();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&state) {
            traces.push(line);
        }
    }
    traces
}

/// A shorter check than that of [`works`]: the difference is below the kubelet.
fn runs_with_containerd_2(name: &str, layout: Layout) {
    let ended = cluster(name, layout, Containerd::Two);
    let cluster = &ended.0;
    let node = cluster.members().unwrap();
    cluster.up().unwrap();
    assert_eq!(cluster.status().containerd, Some(Containerd::Two));
    let runtime = cluster
        .kubectl(&[
            "get",
            "nodes",
            "-o",
            "jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}",
        ])
        .unwrap();
    assert!(runtime.starts_with("containerd://2."), "{runtime}");
    plain_job_completes(cluster);
    healing_works(cluster);
    cluster.down().unwrap();
    assert_eq!(traces(cluster, &node), Vec::<String>::new());
}

fn works(name: &str, layout: Layout) {
    let ended = cluster(name, layout, Containerd::Debian);
    let cluster = &ended.0;
    let node = cluster.members().unwrap();
    cluster.up().unwrap();
    assert!(!traces(cluster, &node).is_empty());
    jobs_work(cluster);
    healing_works(cluster);
    cluster.down().unwrap();
    assert_eq!(traces(cluster, &node), Vec::<String>::new());
}

#[test]
#[ignore = "needs root and half a minute"]
fn cluster_works_with_hybrid_cgroups() {
    works("smoke-hybrid", Layout::Hybrid);
}

#[test]
#[ignore = "needs root and half a minute"]
fn cluster_works_with_cgroup_v2() {
    works("smoke-v2", Layout::V2);
}

#[test]
#[ignore = "needs root and a quarter of a minute"]
fn containerd_2_runs_pods_with_hybrid_cgroups() {
    runs_with_containerd_2("smoke-two", Layout::Hybrid);
}

#[test]
#[ignore = "needs root and a quarter of a minute"]
fn containerd_2_runs_pods_with_cgroup_v2() {
    runs_with_containerd_2("smoke-two-v2", Layout::V2);
}

#[test]
#[ignore = "needs root and half a minute"]
fn two_clusters_run_on_one_machine() {
    let (one, other) = (
        cluster("smoke-one", Layout::Hybrid, Containerd::Debian),
        cluster("smoke-other", Layout::V2, Containerd::Two),
    );
    one.0.up().unwrap();
    other.0.up().unwrap();
    assert_ne!(one.0.address(), other.0.address());
    plain_job_completes(&one.0);
    plain_job_completes(&other.0);
    one.0.down().unwrap();
    assert!(other.0.runs(Component::Kubelet));
}
