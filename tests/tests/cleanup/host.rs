//! A host after the kill of an agent that held the connections of a pod.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use usher_tests::{
    privilege,
    synthetic::{
        Agent, ApiServer, ContainerSpec, Node, Pod, PodSpec,
        catalog::mesh,
        clock::eventually,
        machine, program,
        usher::{self, Ran},
        wire::{Capture, Client, Listen},
    },
};

const FAR: &str = "10.7.7.7:8080";
const LIST_FILE: &str = "10-net.conflist";
const LIST: &str = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"bridge\"}]}";
pub(crate) const SIDECAR: &str = "istio-proxy";

/// Whether this test should run here, in a machine of its own.
pub(crate) fn entered(test: &str) -> bool {
    privilege::granted_with(&["nft", "nsenter"]) && machine::entered(test)
}

/// The host's directories.
pub(crate) struct Host<'node> {
    pub(crate) node: &'node Node,
    top: PathBuf,
}

impl<'node> Host<'node> {
    /// With one network, and foreign objects.
    pub(crate) fn new(node: &'node Node) -> Self {
        let top = node.run_dir().with_file_name("host");
        let host = Self { node, top };
        for directory in ["net.d", "bin", "log"] {
            fs::create_dir_all(host.path(directory)).unwrap();
        }
        host.write(&format!("net.d/{LIST_FILE}"), LIST);
        host.write("bin/bridge", "not usher's");
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The directories that agent and cleanup share.
    fn places(&self) -> Vec<String> {
        vec![
            flag("cni-conf-dir", &self.path("net.d")),
            flag("cni-bin-dir", &self.path("bin")),
            flag("cni-log", &self.path("log/cni.log")),
        ]
    }

    /// Starts an agent that installs the plugin and holds connections.
    pub(crate) fn agent(&self) -> Agent {
        self.node.annotate(&[("usher.dev/hold", "enforce")]);
        let plugin = program::beside_this("usher-cni").expect("usher-cni is built");
        let mut flags = self.places();
        flags.push(flag("cni-binary", &plugin));
        let agent = Agent::start_with(self.node, &flags);
        eventually("the plugin's entry", || self.has_entry());
        agent
    }

    /// A held pod with a sidecar that becomes ready on command.
    pub(crate) fn held(&self, agent: &Agent) -> Pod {
        let spec = PodSpec::new("held")
            .with(ContainerSpec::client("app", Client::to(FAR)))
            .with(mesh::proxy(Listen::OnCommand))
            .captured(Capture::default())
            .announced();
        let pod = self.node.run(&spec);
        agent.wait_for("hold-armed", &pod.name());
        pod
    }

    /// Kills an agent during a hold, and adds foreign objects.
    pub(crate) fn dirty(&self) -> Pod {
        let agent = self.agent();
        let pod = self.held(&agent);
        agent.kill();
        self.write("log/cni.log", "a line\n");
        self.write("bin/.usher-cni.12-ab-0.tmp", "half a plugin");
        assert!(has_table(&pod));
        pod
    }

    /// Starts an agent that installs the plugin, and knows its DaemonSet by name.
    pub(crate) fn agent_of(&self, server: &ApiServer, daemonset: &str) -> Agent {
        server.annotate(&[("usher.dev/hold", "enforce")]);
        let plugin = program::beside_this("usher-cni").expect("usher-cni is built");
        let mut flags = self.places();
        flags.push(flag("cni-binary", &plugin));
        flags.push("--pod-namespace=usher".to_owned());
        flags.push(format!("--daemonset={daemonset}"));
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let agent = Agent::start_with_api(self.node, server, &flags);
        eventually("the plugin's entry", || self.has_entry());
        // The entry may be that of an earlier agent.
        agent.wait_metric("usher_cni_installed", "", |installed| installed > 0.5);
        agent
    }

    /// Whether the network configuration has the plugin's entry.
    pub(crate) fn has_entry(&self) -> bool {
        let list = self.path("net.d").join(LIST_FILE);
        fs::read_to_string(list).is_ok_and(|text| text.contains("usher-cni"))
    }

    /// Starts an agent that cleans the node.
    pub(crate) fn cleaning_agent(&self) -> Agent {
        let mut flags = self.places();
        flags.push("--cleanup".to_owned());
        Agent::start_with(self.node, &flags)
    }

    /// Runs `usher cleanup`.
    pub(crate) fn cleanup(&self, more: &[&str]) -> Ran {
        let mut arguments = vec!["cleanup".to_owned()];
        arguments.extend(self.places());
        arguments.push(flag("run-dir", &self.node.run_dir()));
        // The plugin is not called here.
        arguments.push(format!("--grace-period={:?}", Duration::from_millis(1)));
        arguments.extend(more.iter().map(|&flag| flag.to_owned()));
        usher::run(&arguments)
    }

    /// Every file of the host, with its size.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, u64> {
        let mut files = BTreeMap::new();
        collect(&self.top, &mut files);
        collect(&self.node.run_dir(), &mut files);
        // A live agent continues to write it.
        for (_, size) in files
            .iter_mut()
            .filter(|(path, _)| path.ends_with("timeline.jsonl"))
        {
            *size = 0;
        }
        files
    }

    /// Nothing of usher is left, and everything else is unchanged.
    pub(crate) fn assert_clean(&self, pod: &Pod) {
        let names: Vec<_> = self.files().into_keys().collect();
        let expected = [self.path("bin/bridge"), self.path("net.d").join(LIST_FILE)];
        assert_eq!(names, expected);
        let list = fs::read_to_string(self.path("net.d").join(LIST_FILE)).unwrap();
        assert_eq!(list, LIST);
        assert!(!self.node.run_dir().exists());
        assert!(!has_table(pod));
    }
}

fn collect(directory: &Path, files: &mut BTreeMap<PathBuf, u64>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), files);
        } else {
            files.insert(entry.path(), entry.metadata().unwrap().len());
        }
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// Whether usher has a table in the pod.
pub(crate) fn has_table(pod: &Pod) -> bool {
    let output = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["nft", "list", "tables"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).contains("table inet usher")
}
