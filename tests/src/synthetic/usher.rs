//! The real program `usher`, as a user runs it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::synthetic::limit::Limited;
use crate::synthetic::{Node, program};
use crate::wait::{found_within, patience};

const BINARY: &str = "USHER_CLI_BIN";
const NAME: &str = "usher";

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// None if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs it until it exits.
///
/// # Panics
///
/// If it is not built.
pub fn run(arguments: &[String]) -> Ran {
    let mut command = command();
    command.args(arguments);
    ran(command)
}

/// The same on a node, as in its agent's container, with the same directories from the same variables.
///
/// # Panics
///
/// If it is not built.
pub fn on(node: &Node, arguments: &[&str]) -> Ran {
    let mut command = command_on(node);
    command.args(arguments);
    ran(command)
}

/// Waits until the agent has counted that apps of deleted pods ran for this long after a sidecar had ended.
///
/// # Panics
///
/// If it takes too long.
pub fn wait_gap(node: &Node, least: Duration) {
    found_within(patience(), "the time without a sidecar", || {
        let report = on(node, &["report", "-o", "json"]);
        let report: Value = serde_json::from_str(&report.stdout).ok()?;
        let items = report["items"].as_array()?.iter();
        let gaps = items.filter_map(|item| item["sigtermGapSeconds"].as_f64());
        (gaps.sum::<f64>() >= least.as_secs_f64()).then_some(())
    });
}

/// The same among the processes of a cgroup.
///
/// # Panics
///
/// If it is not built.
pub fn on_limited(node: &Node, limited: &Limited, arguments: &[&str]) -> Ran {
    let inner = command_on(node);
    let variables = inner.get_envs();
    let mut command = Command::new("/bin/sh");
    command
        .env_clear()
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .args(limited.command())
        .arg("--")
        .arg(inner.get_program())
        .args(arguments);
    ran(command)
}

/// The command of [`on`], for callers that set more.
///
/// # Panics
///
/// If it is not built.
pub fn command_on(node: &Node) -> Command {
    let mut command = command();
    command
        .env("USHER_KUBELET", node.kubelet().url())
        .env("USHER_KUBELET_TOKEN", node.token_file())
        .env("USHER_CGROUP_ROOT", node.cgroup_root())
        .env("USHER_RUN_DIR", node.run_dir())
        .env("USHER_CONFIG", node.config_file())
        .env("USHER_BUNDLE_DIR", node.bundle_dir().unwrap_or_default());
    command
}

fn command() -> Command {
    let other = std::env::var_os(BINARY).map(PathBuf::from);
    let binary = other
        .or_else(|| program::beside_this(NAME))
        .unwrap_or_else(|| panic!("{NAME} is not built; run: cargo build -p usher-agent"));
    let mut command = Command::new(binary);
    command.env_clear().stdin(Stdio::null());
    command
}

fn ran(mut command: Command) -> Ran {
    let ran = command.output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: ran.status.code(),
        stdout: text(&ran.stdout),
        stderr: text(&ran.stderr),
    }
}
