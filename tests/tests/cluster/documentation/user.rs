//! A user at a shell: the programs, the commands of the pages with the values of the cluster, and their results.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;
use usher_cluster::workload::app_container;
use usher_tests::{synthetic::program, wait::poll_within};

use super::{
    ROOT,
    page::{Shown, blocks, is_exception},
};
use crate::lab::{Lab, PATIENCE, USHER};

const EXAMPLE: &str = "deploy/examples/job.yaml";
/// The timeout of a command, in seconds.
const TIMEOUT: &str = "180";
/// Lines of kubectl about a command that failed.
const FAILURES: [&str; 3] = ["error:", "Error from server", "Unable to "];

/// A user at a shell.
pub(super) struct User<'lab> {
    lab: &'lab Lab,
    folder: TempDir,
    agent: String,
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Without values that vary, and without the width of columns.
fn plain(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let time = Regex::new(r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b").unwrap();
    let id = Regex::new(r"\bhello-[a-z0-9]{5}\b").unwrap();
    let line = time.replace_all(&line, "TIME").into_owned();
    id.replace_all(&line, "hello-ID").into_owned()
}

/// The exit codes of a command that works. A problem that it finds in the cluster is not a failure of the
/// command.
fn accepted(command: &str) -> &'static [i32] {
    let peer = ["usher request", "usher connect", "usher resolve"];
    if peer.iter().any(|peer| command.contains(peer)) {
        // The app here has other ports and paths, and there is no such database.
        &[0, 1, 5]
    } else if command.contains("usher quit") || command.contains("usher hold") {
        // The app runs, or the sidecar is ready.
        &[0, 1, 3]
    } else {
        &[0, 1]
    }
}

impl<'lab> User<'lab> {
    pub(super) fn new(lab: &'lab Lab) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let kubectl = PathBuf::from(lab.cluster.kubectl_command().get_program());
        symlink(kubectl, bin.join("kubectl")).unwrap();
        for name in ["usher", "kubectl-usher"] {
            let program = program::beside_this(name).expect("it is built with all programs");
            symlink(program, bin.join(name)).unwrap();
        }
        let example = folder.path().join(EXAMPLE);
        fs::create_dir_all(example.parent().unwrap()).unwrap();
        fs::write(&example, runnable_example().to_string()).unwrap();
        let agent = [
            "-n",
            USHER,
            "get",
            "pods",
            "-l",
            "app.kubernetes.io/component=agent",
            "-o",
            "jsonpath={.items[0].metadata.name}",
        ];
        Self {
            agent: lab.cluster.kubectl(&agent).unwrap(),
            lab,
            folder,
        }
    }

    /// The command with the values of this cluster.
    fn adapted(&self, command: &str) -> String {
        let node = self.lab.cluster.node_name();
        let mut text = format!(" {command} ");
        for (pattern, value) in [
            (r"\b(kind-control-plane|worker-1)\b", node),
            (
                r"(?P<b>[ =])NODE(?P<a>[ :])",
                &format!("${{b}}{node}${{a}}"),
            ),
            (r" AGENT ", &format!(" {} ", self.agent)),
            (r" POD ", &format!(" {} ", self.agent)),
            (r" \| wireshark -k -i -", " > /dev/null"),
            (r"(?P<c>usher capture \S+)", "$c --duration 1s"),
        ] {
            text = Regex::new(pattern)
                .unwrap()
                .replace_all(&text, value)
                .into_owned();
        }
        let text = text.trim();
        match text.strip_prefix("usher ") {
            // The command runs on the node itself.
            Some(words) if !words.contains("--file") => {
                format!("kubectl exec -n {USHER} ds/usher -- usher {words}")
            }
            _ => text.to_owned(),
        }
    }

    fn run(&self, script: &str) -> Ran {
        let path = std::env::var("PATH").unwrap();
        let bin = self.folder.path().join("bin");
        let output = Command::new("timeout")
            .args([TIMEOUT, "bash", "-o", "pipefail", "-c", script])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("KUBECONFIG", self.lab.cluster.kubeconfig())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Runs the commands of a page. Variables last from one block to the next.
    pub(super) fn follow(&self, page: &str) -> Vec<String> {
        let mut variables = String::new();
        let mut wrong = Vec::new();
        for block in blocks(page) {
            // As after the installation.
            self.lab.annotate_node("usher.dev/mode-");
            for shown in &block.commands {
                if is_exception(&shown.command) {
                    continue;
                }
                let command = self.adapted(&shown.command);
                let script = format!("{variables}\n{command}");
                let result = self.check(&script, &command, shown);
                let place = format!("{}:{}: {}", block.page, block.line, shown.command);
                wrong.extend(result.err().map(|error| format!("{place}\n  {error}")));
                if command
                    .split_once('=')
                    .is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_uppercase()))
                {
                    variables = script;
                }
            }
        }
        wrong
    }

    fn check(&self, script: &str, command: &str, shown: &Shown) -> Result<(), String> {
        let ran = self.run(script);
        let has_failed = ran
            .stderr
            .lines()
            .any(|line| FAILURES.iter().any(|failure| line.starts_with(failure)));
        if has_failed
            || !ran
                .code
                .is_some_and(|code| accepted(command).contains(&code))
        {
            return Err(format!("exit code {:?}: {}", ran.code, ran.stderr));
        }
        if shown.output.is_empty() {
            return Ok(());
        }
        let node = self.lab.cluster.node_name();
        let expected: Vec<String> = shown
            .output
            .iter()
            .map(|line| plain(&line.replace("kind-control-plane", node)))
            .collect();
        let is_shown = |ran: &Ran| {
            let lines: BTreeSet<String> = ran.stdout.lines().map(plain).collect();
            expected.iter().all(|line| lines.contains(line))
        };
        let mut last = ran;
        // kubectl may show a change some time later.
        let is_list = command.starts_with("kubectl get");
        let limit = if is_list { PATIENCE } else { Duration::ZERO };
        let shown = poll_within(limit, || {
            if is_list && !is_shown(&last) {
                last = self.run(script);
            }
            is_shown(&last).then_some(())
        });
        shown.ok_or_else(|| format!("expected {expected:#?}\n  printed {}", last.stdout))
    }
}

/// The example's Job with the test application, which needs no registry.
fn runnable_example() -> Value {
    let text = fs::read_to_string(Path::new(ROOT).join(EXAMPLE)).unwrap();
    let mut job: Value = serde_saphyr::from_str(&text).unwrap();
    let containers = &mut job["spec"]["template"]["spec"]["containers"];
    for (name, args) in [
        ("app", &["--run-for", "2s"][..]),
        ("proxy", &["--listen", "9080", "--term-code", "0"]),
    ] {
        let containers = containers.as_array_mut().unwrap();
        let container = containers.iter_mut().find(|one| one["name"] == name);
        *container.unwrap() = app_container(name, args);
    }
    job
}
