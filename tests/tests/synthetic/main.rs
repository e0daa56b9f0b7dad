//! To the kernel synthetic pods are like real ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bundle;
mod namespace;
mod stand_in;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::layout::{Driver, Qos};
use usher_tests::synthetic::wire::{Manner, Pace};
use usher_tests::synthetic::{
    Behaviour, ContainerSpec, Node, Pod, PodSpec, RestartPolicy, process,
};

fn proc_file(pid: i32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap()
}

#[test]
fn processes_are_in_their_cgroups_and_namespaces() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let pod = node.run(&PodSpec::job("shape"));
    let other = node.run(&PodSpec::job("other"));
    for container in ["app", "istio-proxy"] {
        let pid = pod.pid(container);
        let cgroup = format!(
            "{}/kubepods/besteffort/pod{}/{}",
            node.cgroup_root().file_name().unwrap().to_str().unwrap(),
            pod.uid(),
            pod.id(container)
        );
        let unified = proc_file(pid, "cgroup");
        assert!(unified.contains(&format!("0::/{cgroup}\n")), "{unified}");
        let status = proc_file(pid, "status");
        let nspid = status.lines().find(|line| line.starts_with("NSpid:"));
        assert!(nspid.unwrap().ends_with("\t1"), "{nspid:?}");
        let mounts = proc_file(pid, "mountinfo");
        let directory = format!("/pods/{}/containers/{container}/", pod.uid());
        let root = mounts.lines().find_map(|line| {
            let root = line.split(' ').nth(3)?;
            root.rsplit_once(&directory).map(|(_, attempt)| attempt)
        });
        assert_eq!(root.unwrap().len(), 8, "{mounts}");
        assert_eq!(process::network(pid), pod.network());
    }
    assert_ne!(pod.network(), other.network());
    let this = i32::try_from(std::process::id()).unwrap();
    assert!(process::network(this).is_some());
    assert_ne!(pod.network(), process::network(this));
    let sandbox = proc_file(pod.pid(""), "mountinfo");
    assert!(!sandbox.contains("termination-log"), "{sandbox}");
}

#[test]
fn systemd_names_and_classes() {
    if !privilege::granted() {
        return;
    }
    let node = Node::with_driver(Driver::Systemd);
    let pod = node.run(&PodSpec::job("slices").qos(Qos::Burstable));
    let cgroup = proc_file(pod.pid("app"), "cgroup");
    let expected = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{}.scope\n",
        pod.uid().replace('-', "_"),
        pod.id("app")
    );
    assert!(cgroup.ends_with(&expected), "{cgroup}");
}

#[test]
fn shared_pid_namespace() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let pod = node.run(&PodSpec::job("shared").sharing_processes());
    let namespace = |container| {
        let pid = pod.pid(container);
        std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap()
    };
    assert_eq!(namespace("app"), namespace(""));
    assert_eq!(namespace("app"), namespace("istio-proxy"));
    pod.finish("app", 4);
    assert_eq!(pod.ended("app").code(), 4);
}

#[test]
fn wrapper_requests_the_quit_and_keeps_the_exit_code() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let pod = node.run(&PodSpec::wrapped_job("wrapped"));
    pod.finish("app", 3);
    let request = pod.request("istio-proxy");
    assert_eq!(request.line, "POST /quitquitquit HTTP/1.1");
    let app = pod.ended("app");
    assert_eq!(app.code(), 3);
    assert!(app.exit_ns().unwrap() < request.at_ns);
    assert_eq!(pod.ended("istio-proxy").code(), 0);
}

#[test]
fn codes_signals_and_restarts() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let spec = PodSpec::new("restarts")
        .policy(RestartPolicy::OnFailure)
        .with(ContainerSpec::app("app").pace(Pace::RUNC))
        .with(ContainerSpec::istio(Manner::IgnoreQuit).later())
        .with(ContainerSpec::brief_app(
            "brief",
            Duration::from_millis(5),
            9,
        ));
    let pod = node.run(&spec);
    let first = pod.id("app");
    pod.finish("app", 1);
    assert_eq!(pod.ended("app").code(), 1);
    pod.restart("app");
    pod.wait_container("app");
    assert_ne!(pod.id("app"), first);
    pod.signal("app", Signal::SIGKILL);
    assert_eq!(pod.ended("app").code(), 137);
    assert_eq!(pod.ended("brief").code(), 9);
    pod.start("istio-proxy");
    pod.wait_container("istio-proxy");
    pod.signal("istio-proxy", Signal::SIGTERM);
    assert_eq!(pod.ended("istio-proxy").code(), 0);
}

#[test]
fn hundred_pods_start_and_end() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let specs: Vec<PodSpec> = (0..100)
        .map(|n| PodSpec::job(&format!("job-{n}")))
        .collect();
    let pods = node.run_all(&specs);
    let networks: BTreeSet<_> = pods.iter().filter_map(Pod::network).collect();
    assert_eq!(networks.len(), 100);
    // The kernel reuses the inode for the next namespace as soon as it is free,
    // also for one of a concurrent test.
    let held: Vec<_> = pods.iter().map(Pod::network_file).collect();
    for pod in &pods {
        pod.finish("app", 0);
    }
    for pod in &pods {
        assert_eq!(pod.ended("app").code(), 0);
    }
    let cgroups: Vec<PathBuf> = pods.iter().map(|pod| pod.cgroup().clone()).collect();
    drop(pods);
    assert!(cgroups.iter().all(|cgroup| !cgroup.exists()));
    let left = process::all_networks();
    assert!(left.is_disjoint(&networks), "{left:?}");
    drop(held);
}

#[test]
fn nothing_is_left() {
    if !privilege::granted() {
        return;
    }
    let (cgroup_root, run_dir, pids);
    {
        let node = Node::new();
        let pod = node.run(&PodSpec::job("gone"));
        let halfway = node.create(&PodSpec::job("halfway"));
        drop(halfway);
        cgroup_root = node.cgroup_root().to_owned();
        run_dir = node.run_dir();
        pids = ["", "app", "istio-proxy"].map(|container| pod.pid(container));
    }
    assert!(!cgroup_root.exists());
    assert!(!run_dir.exists());
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("usher-synthetic"), "{mounts}");
}

fn ask(node: &Node, token: &str) -> (String, String) {
    let address = node.kubelet().url().replace("http://", "");
    let mut stream = TcpStream::connect(address).unwrap();
    let request =
        format!("GET /pods HTTP/1.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn kubelet_stand_in() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let pod = node.run(&PodSpec::job("listed").annotation("usher.dev/quit", "false"));
    let token = std::fs::read_to_string(node.token_file()).unwrap();
    let items = || {
        let (head, body) = ask(&node, &token);
        assert_eq!(head, "HTTP/1.1 200 Synthetic");
        let list: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(list["kind"], "PodList");
        list["items"].as_array().unwrap().clone()
    };

    node.kubelet().lag(Duration::MAX);
    let [item] = &items()[..] else {
        panic!("one pod")
    };
    assert_eq!(item["metadata"]["uid"], pod.uid());
    assert_eq!(item["metadata"]["annotations"]["usher.dev/quit"], "false");
    assert_eq!(item["status"]["phase"], "Pending");
    assert!(item["status"].get("containerStatuses").is_none());

    node.kubelet().lag(Duration::ZERO);
    pod.finish("app", 7);
    pod.ended("app");
    pod.mark_deleted();
    let item = &items()[0];
    let app = &item["status"]["containerStatuses"][0];
    let id = format!("containerd://{}", pod.id("app"));
    assert_eq!(app["containerID"], id);
    assert_eq!(app["state"]["terminated"]["exitCode"], 7);
    assert!(item["metadata"]["deletionTimestamp"].is_string());

    assert_eq!(ask(&node, "wrong").0, "HTTP/1.1 401 Synthetic");
    node.kubelet().behave(Behaviour::Status(500));
    assert_eq!(ask(&node, &token).0, "HTTP/1.1 500 Synthetic");
    node.kubelet().behave(Behaviour::TruncatedJson);
    let (_, body) = ask(&node, &token);
    assert!(serde_json::from_str::<serde_json::Value>(&body).is_err());
}
