//! The command blocks of the README and of the pages of tasks, as a user runs them. Where a page shows the output of a
//! command, it is compared.
//!
//! Placeholders of the pages (`NODE`, `AGENT`, `POD`) have the values of the cluster, and the namespace `shop` has the
//! pods that the pages name. A command that cannot run here is in [`NOT_HERE`].

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use usher_cluster::workload::{app_container, istio_proxy_container, pod};
use usher_tests::synthetic::program;

use crate::lab::{self, Lab, USHER, until};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// It has the list of the pages of tasks.
const INDEX: &str = "docs/README.md";
const EXAMPLE: &str = "deploy/examples/job.yaml";
/// The namespaces and the pods that the pages name.
const SHOP: &str = "shop";
const BATCH: &str = "batch";
const PODS: [&str; 2] = ["report-x7k2p", "job-h2m9c"];
/// The pool of nodes that a page names.
const POOL: &str = "pool=batch";
/// Programs that begin a command.
const PROGRAMS: [&str; 8] = [
    "cargo", "helm", "kind", "kubectl", "kubelet", "skopeo", "tar", "usher",
];
/// Commands that cannot run here: their beginning, and the reason.
const NOT_HERE: [(&str, &str); 9] = [
    ("kind ", "the cluster of the tests is not one of kind"),
    ("cargo xtask image", "cargo xtask test builds the image"),
    ("kubectl create namespace usher", "usher is installed"),
    ("helm ", "the test of the chart installs it"),
    ("kubelet ", "the kubelet runs"),
    (
        "kubectl -n usher logs POD --previous",
        "the agent did not restart",
    ),
    (
        "kubectl -n usher get configmap usher ",
        "an installation without Helm has no ConfigMap by default",
    ),
    ("kubectl taint ", "the node has no taint"),
    ("usher sysdump ", "the container has no writable directory"),
];
/// Lines of kubectl about a command that failed.
const FAILURES: [&str; 3] = ["error:", "Error from server", "Unable to "];

/// A block of a page.
#[derive(Debug)]
struct Block {
    page: String,
    line: usize,
    commands: Vec<Shown>,
}

/// A command, and the output that the page shows.
#[derive(Debug, Default)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// A user at a shell.
struct User<'lab> {
    lab: &'lab Lab,
    folder: TempDir,
    agent: String,
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The README and the pages that the section on tasks links.
fn pages() -> BTreeSet<String> {
    let index = fs::read_to_string(Path::new(ROOT).join(INDEX)).unwrap();
    let (_, tasks) = index.split_once("## Tasks").unwrap();
    let (tasks, _) = tasks.split_once("\n## ").unwrap();
    let link = Regex::new(r"\(([a-z-]+\.md)\)").unwrap();
    link.captures_iter(tasks)
        .map(|found| format!("docs/{}", &found[1]))
        .chain(["README.md".to_owned()])
        .collect()
}

fn is_command(line: &str) -> bool {
    let word = line.split(' ').next().unwrap_or_default();
    let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())
    });
    is_assignment || PROGRAMS.contains(&word)
}

fn is_exception(command: &str) -> bool {
    NOT_HERE
        .iter()
        .any(|(beginning, _reason)| command.starts_with(beginning))
}

/// The blocks of a page that have commands.
fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, fence)) = lines.next() {
        let Some(kind) = fence.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        let commands = match kind {
            "console" => with_prompts(&body),
            "" if body.first().is_some_and(|line| is_command(line)) => without_prompts(&body),
            _ => continue,
        };
        let page = page.to_owned();
        let line = number + 2;
        blocks.push(Block {
            page,
            line,
            commands,
        });
    }
    blocks
}

fn with_prompts(body: &[&str]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for line in body {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push(Shown {
                command: command.to_owned(),
                output: Vec::new(),
            }),
            None => commands.last_mut().unwrap().output.push((*line).to_owned()),
        }
    }
    commands
}

fn without_prompts(body: &[&str]) -> Vec<Shown> {
    let text = body.join("\n").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| Shown {
            command: line.to_owned(),
            output: Vec::new(),
        })
        .collect()
}

/// Without values that vary, and without the width of columns.
fn plain(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let time = Regex::new(r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b").unwrap();
    let id = Regex::new(r"\bhello-[a-z0-9]{5}\b").unwrap();
    let line = time.replace_all(&line, "TIME").into_owned();
    id.replace_all(&line, "hello-ID").into_owned()
}

/// The codes of a command that works: a problem that a command finds is not one of the command.
fn accepted(command: &str) -> &'static [i32] {
    if command.contains("usher request") {
        // The app here has other ports and paths.
        &[0, 1, 5]
    } else if command.contains("usher quit") || command.contains("usher hold") {
        // The app runs, or the sidecar is ready.
        &[0, 1, 3]
    } else {
        &[0, 1]
    }
}

impl<'lab> User<'lab> {
    fn new(lab: &'lab Lab) -> Self {
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
            // On the node itself.
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
            .args(["60", "bash", "-o", "pipefail", "-c", script])
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
    fn follow(&self, page: &str) -> Vec<String> {
        let mut variables = String::new();
        let mut wrong = Vec::new();
        for block in blocks(page) {
            self.observe();
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
        // A list shows it some time later.
        for _ in 0..60 {
            if is_shown(&last) || !command.starts_with("kubectl get") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
            last = self.run(script);
        }
        if is_shown(&last) {
            return Ok(());
        }
        Err(format!("expected {expected:#?}\n  printed {}", last.stdout))
    }

    /// As after the installation: without annotations of the node.
    fn observe(&self) {
        let node = self.lab.cluster.node_name();
        let args = [
            "annotate",
            "node",
            node,
            "usher.dev/mode-",
            "usher.dev/quit-",
            "usher.dev/hold-",
        ];
        self.lab.cluster.kubectl(&args).unwrap();
    }
}

/// The example's Job with the program of the tests, which no registry has to serve.
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

/// The objects that the pages name. Removed on drop.
struct Stage<'lab>(&'lab Lab);

impl<'lab> Stage<'lab> {
    fn new(lab: &'lab Lab) -> Self {
        let stage = Self(lab);
        for namespace in [SHOP, BATCH] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
            });
            lab.cluster.apply(&namespace).unwrap();
        }
        for name in PODS {
            let containers = [
                app_container("app", &["--listen", "8080"]),
                istio_proxy_container(),
            ];
            lab.cluster
                .apply(&pod(name, SHOP, "Never", &containers))
                .unwrap();
        }
        let node = lab.cluster.node_name();
        lab.cluster.kubectl(&["label", "node", node, POOL]).unwrap();
        until("the pods of the pages to run", || {
            let pods = ["-n", SHOP, "get", "pods"];
            let pods = lab.cluster.kubectl_json(&pods).ok()?;
            let pods = pods["items"].as_array()?.clone();
            let runs = |pod: &Value| pod["status"]["phase"] == "Running";
            (pods.len() == PODS.len() && pods.iter().all(runs)).then_some(())
        });
        stage
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let node = self.0.cluster.node_name();
        let key = POOL.split('=').next().unwrap_or_default();
        for args in [
            &["delete", "namespace", SHOP, BATCH, "--wait=false"][..],
            &["delete", "job", "hello", "--ignore-not-found"],
            &["label", "node", node, &format!("{key}-")],
        ] {
            lab::tidy(|| drop(self.0.cluster.kubectl(args)));
        }
    }
}

/// Without a cluster: each block has commands that are known, and each exception occurs.
#[test]
fn exceptions_occur_in_the_pages() {
    let commands: Vec<String> = pages()
        .iter()
        .flat_map(|page| blocks(page))
        .flat_map(|block| block.commands)
        .map(|shown| shown.command)
        .collect();
    for (beginning, reason) in NOT_HERE {
        let occurs = commands
            .iter()
            .any(|command| command.starts_with(beginning));
        assert!(occurs, "{beginning:?} ({reason})");
    }
    let executed = commands
        .iter()
        .filter(|command| !is_exception(command))
        .count();
    assert!(executed >= 60, "{executed} of {}", commands.len());
}

#[test]
fn command_blocks_of_the_pages_work() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let _stage = Stage::new(&lab);
    let user = User::new(&lab);
    let wrong: Vec<String> = pages().iter().flat_map(|page| user.follow(page)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
