//! For tests: a node with a directory as `/proc`, and a pod that was already read.

use std::fs;

use clap::Parser;
use tempfile::TempDir;
use usher_client::node_args::NodeArgs;
use usher_core::{
    admin::{Pod, PodState, Role},
    base::id::{ContainerId, Pid, PodUid},
};

use super::{Node, Target, target::TargetContainer};

pub(crate) const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";
/// The UID of a pod that was created later.
pub(crate) const OTHER: &str = "1d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

pub(crate) struct Fixture {
    folder: TempDir,
    pub(crate) node: Node,
    pub(crate) target: Target,
}

impl Fixture {
    /// A pod with these processes in its app container; the first one is the init process.
    pub(crate) fn new(pids: &[i32]) -> Self {
        #[derive(Parser)]
        struct Args {
            #[command(flatten)]
            node: NodeArgs,
        }
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().to_str().unwrap();
        let args = Args::try_parse_from(["usher", "--proc", proc]).unwrap();
        let processes: Vec<Pid> = pids.iter().copied().map(Pid).collect();
        let app = TargetContainer {
            id: ContainerId::parse(&"a".repeat(64)).unwrap(),
            name: Some("app".to_owned()),
            role: Role::App,
            recipe: None,
            init: processes.first().copied(),
            processes,
        };
        let pod = Pod {
            uid: UID.to_owned(),
            namespace: Some("shop".to_owned()),
            name: Some("report".to_owned()),
            state: PodState::Running,
            decision: None,
            reason: None,
            held_ports: Vec::new(),
            held_starts: 0,
            held_stops: 0,
            host_network: false,
            deleting: false,
            quarantine: None,
            containers: Vec::new(),
        };
        Self {
            node: Node::new(&args.node),
            target: Target {
                uid: PodUid::parse(UID).unwrap(),
                pod,
                ips: Vec::new(),
                containers: vec![app],
                gaps: Vec::new(),
            },
            folder,
        }
    }

    /// Adds a process with this PID and these files to the app container of a pod.
    pub(crate) fn process(&self, pid: i32, uid: &str, files: &[(&str, &str)]) {
        let folder = self.folder.path().join(pid.to_string());
        fs::create_dir_all(folder.join("net")).unwrap();
        let cgroup = format!("0::/kubepods/besteffort/pod{uid}/{}\n", "a".repeat(64));
        for (name, text) in files.iter().chain(&[("cgroup", &cgroup[..])]) {
            fs::write(folder.join(name), text).unwrap();
        }
    }
}
