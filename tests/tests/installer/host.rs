//! The directories of a host, and an agent that installs the plugin there.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use usher_tests::synthetic::{Agent, Node, program, usher};
use usher_tests::wait::patience;

/// Files have no notification here, so this is the polling interval.
const LOOK: Duration = Duration::from_millis(5);
pub(crate) const PLUGIN: &str = "usher-cni";

/// A host. Its directories are removed with the node.
pub(crate) struct Host<'node> {
    node: &'node Node,
    pub(crate) networks: PathBuf,
    pub(crate) plugins: PathBuf,
    plugin_log: PathBuf,
}

impl<'node> Host<'node> {
    /// Without networks and plugins.
    pub(crate) fn new(node: &'node Node) -> Self {
        let top = node.run_dir().with_file_name("host");
        let (networks, plugins) = (top.join("net.d"), top.join("bin"));
        for directory in [&networks, &plugins] {
            fs::create_dir_all(directory).unwrap();
        }
        // The runtime's own, as in its configurations.
        fs::write(plugins.join("bridge"), "not usher's").unwrap();
        let plugin_log = top.join("plugin.log");
        Self {
            node,
            networks,
            plugins,
            plugin_log,
        }
    }

    fn flags(&self) -> Vec<String> {
        let binary = program::beside_this(PLUGIN)
            .unwrap_or_else(|| panic!("{PLUGIN} is not built; run: cargo build -p {PLUGIN}"));
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        vec![
            flag("cni-conf-dir", &self.networks),
            flag("cni-bin-dir", &self.plugins),
            flag("cni-binary", &binary),
            flag("cni-log", &self.plugin_log),
            flag("cni-socket", &self.plugin_log.with_file_name("absent.sock")),
        ]
    }

    /// Starts an agent that installs the plugin: the Node enables the hold.
    pub(crate) fn start(&self) -> Agent {
        self.start_in("enforce")
    }

    /// Starts an agent with this hold mode of its Node.
    pub(crate) fn start_in(&self, mode: &str) -> Agent {
        self.node.annotate(&[("usher.dev/hold", mode)]);
        Agent::start_with(self.node, &self.flags())
    }

    /// Removes the plugin from the host, and nothing else.
    pub(crate) fn uninstall(&self, grace_period: &str) {
        let nowhere = self.networks.with_file_name("nowhere");
        fs::create_dir_all(&nowhere).unwrap();
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let ran = usher::run(&[
            "cleanup".to_owned(),
            flag("cni-conf-dir", &self.networks),
            flag("cni-bin-dir", &self.plugins),
            flag("run-dir", &nowhere.join("run")),
            flag("cni-log", &nowhere.join("log")),
            flag("proc", &nowhere),
            format!("--grace-period={grace_period}"),
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// Writes a configuration atomically.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let new = self.networks.join("other.tmp");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.networks.join(name)).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.networks.join(name)).unwrap_or_default()
    }

    /// The inode of a file, which changes when the file is replaced.
    pub(crate) fn inode(&self, name: &str) -> u64 {
        fs::metadata(self.networks.join(name)).unwrap().ino()
    }

    /// Waits until a file has the entry.
    pub(crate) fn wait_installed(&self, agent: &Agent, name: &str) {
        let deadline = Instant::now() + patience();
        while !self.text(name).contains(PLUGIN) {
            assert!(
                Instant::now() < deadline,
                "no entry in {name}: {:?}; the agent's log: {:#?}",
                self.text(name),
                agent.log().lines()
            );
            pause(LOOK);
        }
        agent.wait_metric("usher_cni_installed", "", |installed| installed == 1.0);
    }

    /// The calls of the plugin that reached no agent, from its log.
    pub(crate) fn calls_without_agent(&self) -> usize {
        let log = fs::read_to_string(&self.plugin_log).unwrap_or_default();
        log.lines().count()
    }
}

/// Waits for a while, as a periodic writer does.
pub(crate) fn pause(length: Duration) {
    let (_keeps_it_open, never) = mpsc::channel::<()>();
    // The channel only ends by its timeout.
    never.recv_timeout(length).unwrap_err();
    thread::yield_now();
}
