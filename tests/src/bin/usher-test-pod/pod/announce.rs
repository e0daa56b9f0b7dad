//! Calls the CNI plugin, as a runtime does between the creation of a pod's network
//! namespace and its first process.
//!
//! The plugin belongs to the node and rejects its own namespace, so a thread
//! that returns to the node's namespace starts it: a child has the namespaces of the
//! thread that creates it.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sched::{CloneFlags, setns};
use serde_json::json;
use usher_tests::synthetic::wire::{Added, Announcement};

/// The network namespace in which a shim starts.
pub(crate) struct Outside(File);

impl Outside {
    /// Opens it before this process creates another one.
    pub(crate) fn open() -> Result<Self, String> {
        let path = "/proc/self/ns/net";
        let file = File::open(path).map_err(|error| format!("open {path}: {error}"))?;
        Ok(Self(file))
    }

    /// Calls the plugin for a sandbox and waits for its exit.
    pub(crate) fn announce(
        &self,
        what: &Announcement,
        uid: &str,
        sandbox: &str,
    ) -> Result<Added, String> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.go_back()?;
                add(what, uid, sandbox)
            });
            let joined = thread.join();
            joined.map_err(|_panicked| "the plugin's thread panicked".to_owned())?
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the thread starts one process there and ends"
    )]
    fn go_back(&self) -> Result<(), String> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(|error| format!("setns: {error}"))
    }
}

fn add(what: &Announcement, uid: &str, sandbox: &str) -> Result<Added, String> {
    let conf = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "type": "usher-cni",
        "socket": what.socket,
        "logFile": what.log,
        "timeout": format!("{}ms", what.timeout.as_millis()),
        "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "e0"}]},
    });
    let arguments = [
        "IgnoreUnknown=1".to_owned(),
        format!("K8S_POD_NAMESPACE={}", what.namespace),
        format!("K8S_POD_NAME={}", what.name),
        format!("K8S_POD_INFRA_CONTAINER_ID={sandbox}"),
        format!("K8S_POD_UID={uid}"),
    ];
    let begin = Instant::now();
    let mut plugin = Command::new(&what.plugin)
        .env_clear()
        .env("CNI_COMMAND", "ADD")
        .env("CNI_CONTAINERID", sandbox)
        .env("CNI_NETNS", format!("/proc/{}/ns/net", std::process::id()))
        .env("CNI_IFNAME", "e0")
        .env("CNI_PATH", "/nonexistent")
        .env("CNI_ARGS", arguments.join(";"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("spawn {}: {error}", what.plugin.display()))?;
    if let Some(mut input) = plugin.stdin.take() {
        // A plugin that does not read its input reports it by its exit code.
        drop(input.write_all(conf.to_string().as_bytes()));
    }
    let output = plugin
        .wait_with_output()
        .map_err(|error| format!("wait for {}: {error}", what.plugin.display()))?;
    Ok(Added {
        took: begin.elapsed(),
        code: output.status.code(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}
