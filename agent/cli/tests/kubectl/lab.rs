//! A cluster, and the program that runs against it.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Cluster, Executed, Reply, Server};

pub(crate) fn pod(namespace: &str, name: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "conditions": []},
    })
}

pub(crate) fn agent(name: &str, node: &str) -> Value {
    let mut agent = pod("usher", name, Some(node));
    agent["metadata"]["labels"] = json!({"app.kubernetes.io/name": "usher"});
    agent["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    agent
}

/// Two nodes with an agent, one without, and pods on all of them.
pub(crate) fn cluster(program: impl Fn(&Executed) -> Reply + Send + Sync + 'static) -> Cluster {
    Cluster {
        pods: vec![
            agent("usher-one", "one"),
            agent("usher-two", "two"),
            pod("shop", "report-x7k2p", Some("two")),
            pod("shop", "bill-1", Some("one")),
            pod("shop", "bill-2", Some("two")),
            pod("shop", "pending", None),
            pod("bank", "ledger", Some("three")),
        ],
        forbidden: Vec::new(),
        program: Box::new(program),
    }
}

pub(crate) fn replies(code: u8) -> impl Fn(&Executed) -> Reply {
    move |_executed| Reply {
        code: Some(code),
        ..Reply::default()
    }
}

pub(crate) struct Lab {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Lab {
    pub(crate) fn start(cluster: Cluster) -> Self {
        let server = Server::start(cluster);
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "shop",
            "contexts": [
                {"name": "shop", "context": {"cluster": "it", "user": "it", "namespace": "shop"}},
                {"name": "bank", "context": {"cluster": "it", "user": "it", "namespace": "bank"}},
            ],
            "clusters": [{"name": "it", "cluster": {"server": server.url}}],
            "users": [{"name": "it", "user": {}}],
        });
        fs::write(folder.path().join("kubeconfig"), config.to_string()).unwrap();
        Self { server, folder }
    }

    /// Runs the program with the kubeconfig in the environment, and a pipe as standard input that stays open.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let (stdin, _open) = std::io::pipe().unwrap();
        self.run_with(arguments, stdin.into())
    }

    pub(crate) fn run_with(&self, arguments: &[&str], stdin: Stdio) -> Ran {
        let ran = Command::new(env!("CARGO_BIN_EXE_kubectl-usher"))
            .env_clear()
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .current_dir(self.folder.path())
            .args(arguments)
            .stdin(stdin)
            .output()
            .unwrap();
        Ran {
            code: ran.status.code(),
            stdout: ran.stdout,
            stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
        }
    }

    /// The names of the files in the folder of the program.
    pub(crate) fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The only command that was received.
    pub(crate) fn executed(&self) -> Executed {
        let executed = self.server.executed();
        assert_eq!(executed.len(), 1, "{executed:?}");
        executed[0].clone()
    }
}
