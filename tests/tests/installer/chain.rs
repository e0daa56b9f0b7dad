//! Pods start and end at every moment of an installation and a removal: libcni calls the plugins in the configuration.

use std::{
    fs::{self, File},
    os::{fd::AsRawFd, unix::fs::symlink},
    path::PathBuf,
    process::{self, Command},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use usher_cluster::programs;
use usher_tests::{
    privilege,
    synthetic::{Node, machine},
};

use crate::{
    host::{Host, PLUGIN},
    reader,
};

const NETWORK: &str = "net";
const LIST_FILE: &str = "10-net.conflist";

struct Runtime {
    tool: PathBuf,
    plugins: PathBuf,
    networks: PathBuf,
}

impl Runtime {
    /// Installs the reference plugins on the host. Results and addresses are kept in memory.
    fn new(host: &Host<'_>) -> Self {
        let var = "/var/lib";
        let none = None::<&str>;
        mount(Some("tmpfs"), var, Some("tmpfs"), MsFlags::empty(), none).unwrap();
        let reference = programs::cni_reference().unwrap();
        fs::remove_file(host.plugins.join("bridge")).unwrap();
        for program in fs::read_dir(&reference).unwrap() {
            let program = program.unwrap();
            symlink(program.path(), host.plugins.join(program.file_name())).unwrap();
        }
        Self {
            tool: reference.join("cnitool"),
            plugins: host.plugins.clone(),
            networks: host.networks.clone(),
        }
    }

    fn expect(&self, verb: &str, pod: &Pod) {
        let called = Command::new(&self.tool)
            .args([verb, NETWORK, &pod.path()])
            .env("CNI_PATH", &self.plugins)
            .env("NETCONFPATH", &self.networks)
            .env(
                "CNI_ARGS",
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=jobs;K8S_POD_NAME=a",
            )
            .output()
            .unwrap();
        let file = reader::first(&self.networks).and_then(|path| fs::read_to_string(path).ok());
        assert!(called.status.success(), "{verb}: {called:?} {file:?}");
    }
}

/// The network namespace of a pod.
struct Pod(File);

impl Pod {
    fn new() -> Self {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        Self(made.join().unwrap())
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.0.as_raw_fd())
    }
}

fn conf(primary: &str) -> String {
    format!(
        "\"type\": \"{primary}\", \"ipam\": {{\"type\": \"host-local\", \"subnet\": \"10.88.0.0/24\"}}"
    )
}

fn list(primary: &str) -> String {
    let plugin = conf(primary);
    format!(
        "{{\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"{NETWORK}\",\n  \"plugins\": [\n    {{{plugin}}}\n  ]\n}}\n"
    )
}

/// Whether this is a machine of the test's own. A new machine builds the reference plugins first, because
/// the test's own machine has no network to download their sources.
fn entered(test: &str) -> bool {
    let granted = privilege::granted();
    if granted {
        programs::cni_reference().unwrap();
    }
    granted && machine::entered(test)
}

#[test]
fn installs_before_and_after_the_network() {
    if !entered("chain::installs_before_and_after_the_network") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let runtime = Runtime::new(&host);
    let pod = Pod::new();
    let single = |primary: &str| {
        let plugin = conf(primary);
        format!("{{\"cniVersion\": \"1.0.0\", \"name\": \"{NETWORK}\", {plugin}}}\n")
    };
    let mut calls = 0;
    for primary in ["bridge", "ptp"] {
        for (name, text) in [(LIST_FILE, list(primary)), ("10-net.conf", single(primary))] {
            for is_first in [false, true] {
                let agent = if is_first {
                    let agent = host.start();
                    agent
                        .log()
                        .wait("the plugin to wait for a network", |line| {
                            let message = line["message"].as_str()?;
                            message
                                .contains("found no network configuration")
                                .then_some(())
                        });
                    host.write(name, &text);
                    agent
                } else {
                    host.write(name, &text);
                    host.start()
                };
                host.wait_installed(&agent, LIST_FILE);
                runtime.expect("add", &pod);
                calls += 1;
                assert_eq!(host.calls_without_agent(), calls, "{primary} {name}");
                runtime.expect("check", &pod);
                // The entry outlives the agent, and so do pods.
                assert_eq!(agent.stop(), Some(0));
                runtime.expect("del", &pod);
                runtime.expect("add", &pod);
                calls += 1;
                host.uninstall("0s");
                runtime.expect("del", &pod);
                assert!(!host.plugins.join(PLUGIN).exists());
                fs::remove_file(host.networks.join(LIST_FILE)).unwrap();
            }
        }
    }
}

#[test]
fn fifty_installations_and_removals() {
    if !entered("chain::fifty_installations_and_removals") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let runtime = Runtime::new(&host);
    let pod = Pod::new();
    host.write(LIST_FILE, &list("bridge"));
    for round in 1..=50 {
        runtime.expect("add", &pod);
        let agent = host.start();
        host.wait_installed(&agent, LIST_FILE);
        // The pod is older than the entry.
        runtime.expect("del", &pod);
        runtime.expect("add", &pod);
        assert_eq!(host.calls_without_agent(), round);
        agent.kill();
        host.uninstall("0s");
        // The pod is newer than the removal of the entry.
        runtime.expect("del", &pod);
        assert_eq!(host.text(LIST_FILE), list("bridge"));
    }
}

/// The same while pods start and end all the time.
#[test]
fn pods_start_and_end_during_installation() {
    if !entered("chain::pods_start_and_end_during_installation") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let runtime = Runtime::new(&host);
    host.write(LIST_FILE, &list("ptp"));
    let (is_done, pods) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let pod = Pod::new();
            while !is_done.load(Ordering::Acquire) {
                runtime.expect("add", &pod);
                runtime.expect("del", &pod);
                pods.fetch_add(1, Ordering::Release);
            }
        });
        let rounds = scope.spawn(|| {
            for _ in 0..3 {
                let agent = host.start();
                host.wait_installed(&agent, LIST_FILE);
                assert_eq!(agent.stop(), Some(0));
                host.uninstall("5s");
            }
        });
        let ended = rounds.join();
        is_done.store(true, Ordering::Release);
        ended.unwrap();
    });
    assert!(pods.load(Ordering::Acquire) > 3);
    assert!(host.calls_without_agent() > 0);
}
