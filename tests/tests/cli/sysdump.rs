//! `usher sysdump`, and `--file`.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use usher_tests::{
    privilege,
    synthetic::{
        Agent, Behaviour, ContainerSpec, Node, Pod, PodSpec, machine, usher, wire::Manner,
    },
};

use crate::{answer, enforcing, known, run};

/// The timestamp of all sysdumps of these tests.
const AT: &str = "2026-11-22T01:20:00Z";
/// A secret that must appear in no file.
const SECRET: &str = "hunter2";

/// Commands that read from a sysdump, with their arguments.
const READS: [&[&str]; 4] = [
    &["pods"],
    &["pods", "--all", "-o", "wide"],
    &["pods", "-o", "yaml"],
    &["pods", "keeps"],
];

fn place(node: &Node, name: &str) -> PathBuf {
    node.run_dir().with_file_name(name)
}

fn secretive(node: &Node) -> Pod {
    let mut app = ContainerSpec::app("app")
        .env("DB_PASSWORD", SECRET)
        .env("GREETING", SECRET);
    app.command = words([
        "/app",
        "--api-token",
        SECRET,
        "--url=postgres://me:hunter2@db/",
    ]);
    let spec = PodSpec::new("keeps")
        .with(app)
        .with(ContainerSpec::istio(Manner::Quit))
        .annotation("usher.dev/quit-delay", "5s")
        .annotation("shop.example/pin", SECRET)
        .annotation(
            "sidecar.istio.io/userVolume",
            "Authorization: Bearer hunter2hunter2",
        );
    node.run(&spec)
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Every file below a directory.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

fn laid(node: &Node, name: &str, arguments: &[&str]) -> BTreeMap<String, String> {
    let folder = place(node, name);
    let to = [
        "sysdump",
        "--at",
        AT,
        "--directory",
        folder.to_str().unwrap(),
    ];
    answer(node, &[&to, arguments].concat());
    files(&folder)
}

fn manifest(files: &BTreeMap<String, String>) -> Value {
    serde_json::from_str(&files["manifest.json"]).unwrap()
}

#[test]
fn same_node_gives_the_same_bytes() {
    // The sysdump reads tables in all network namespaces of the machine, including those of other tests' pods.
    if !privilege::granted() || !machine::entered("sysdump::same_node_gives_the_same_bytes") {
        return;
    }
    let Some(node) = enforcing() else { return };
    // A later status changes what is known of a pod.
    node.kubelet().lag(Duration::ZERO);
    let _pods = ["one", "two"].map(|name| node.run(&PodSpec::job(name)));
    let [one, other] = ["a", "b"].map(|name| laid(&node, name, &[]));
    for (name, text) in &one {
        assert!(
            other.get(name) == Some(text),
            "{name}: {}",
            other[name]
                .lines()
                .zip(text.lines())
                .filter(|(a, b)| a != b)
                .map(|(a, b)| format!("{a} | {b}\n"))
                .collect::<String>()
        );
    }
    assert_eq!(one.len(), other.len());
    let made = ["a.tar.gz", "b.tar.gz"].map(|name| {
        let file = place(&node, name);
        let ran = run(
            &node,
            &["sysdump", "--at", AT, "-w", file.to_str().unwrap()],
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("of 2 pods"), "{ran:?}");
        fs::read(&file).unwrap()
    });
    assert!(made[0] == made[1], "the same files, and other bytes");
    // Also when it is piped out of the agent's container.
    let mut piped = usher::command_on(&node);
    piped.args(["sysdump", "--at", AT]).stdout(Stdio::piped());
    assert!(piped.output().unwrap().stdout == made[0], "of a pipe");
    let later = place(&node, "later.tar.gz");
    let later = later.to_str().unwrap();
    answer(&node, &["sysdump", "--at", "1795310401", "-w", later]);
    assert!(fs::read(later).unwrap() != made[0], "its time is in it");
}

#[test]
fn every_file_is_listed_and_none_contains_a_secret() {
    let Some(node) = enforcing() else { return };
    let pod = secretive(&node);
    fs::write(
        node.run_dir().join("cni.log"),
        "GET https://me:hunter2@api/ refused\n",
    )
    .unwrap();
    let files = laid(&node, "listed", &[]);
    for (name, text) in &files {
        assert!(!text.contains(SECRET), "{name}: {text}");
    }
    let manifest = manifest(&files);
    assert_eq!(manifest["apiVersion"], "usher.dev/sysdump/v1");
    let listed = manifest["files"].as_array().unwrap().iter();
    let mut listed: Vec<&str> = listed.map(|file| file["path"].as_str().unwrap()).collect();
    listed.push("manifest.json");
    listed.sort_unstable();
    assert_eq!(listed, files.keys().collect::<Vec<_>>());
    let folder = format!("pods/default_keeps_{}", pod.uid());
    for name in ["kubelet", "network", "processes", "timeline"] {
        assert!(
            files.contains_key(&format!("{folder}/{name}.json")),
            "{listed:?}"
        );
    }
    let rules = manifest["redacted"].as_array().unwrap().iter();
    let rules: Vec<&str> = rules.map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(
        rules,
        ["annotation", "argument", "field", "text", "variable"]
    );
    // The important files are there.
    let kubelet: Value = serde_json::from_str(&files[&format!("{folder}/kubelet.json")]).unwrap();
    let notes = &kubelet["metadata"]["annotations"];
    assert_eq!(notes["usher.dev/quit-delay"], "5s");
    assert_eq!(notes["shop.example/pin"], Value::Null);
    assert_eq!(
        kubelet["spec"]["containers"][0]["command"],
        json!([
            "/app",
            "--api-token",
            "[redacted]",
            "--url=postgres://[redacted]@db/"
        ])
    );
}

#[test]
fn commands_print_the_same_from_a_sysdump() {
    let Some(node) = enforcing() else { return };
    let pod = secretive(&node);
    let agent = Agent::start(&node);
    known(&node);
    let stdout = READS.map(|arguments| answer(&node, arguments));
    let dumps = [
        place(&node, "same.tar.gz").display().to_string(),
        place(&node, "same").display().to_string(),
    ];
    answer(&node, &["sysdump", "-w", &dumps[0]]);
    answer(&node, &["sysdump", "--directory", &dumps[1]]);
    agent.kill();
    drop(pod);
    for dump in &dumps {
        for (arguments, stdout) in READS.iter().zip(&stdout) {
            let ran = run(&node, &[*arguments, &["--file", dump]].concat());
            assert_eq!(ran.code, Some(0), "{ran:?}");
            // All of it but the word for its source.
            let from_agent = ran.stdout.replace("from: file", "from: agent");
            assert_eq!(from_agent, *stdout, "{arguments:?}");
            assert!(ran.stderr.contains("sysdump"), "{ran:?}");
        }
    }
}

#[test]
fn missing_items_are_listed() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("alone"));
    node.kubelet().behave(Behaviour::Status(503));
    let files = laid(&node, "lacks", &[]);
    let manifest = manifest(&files);
    let missing = manifest["missing"].as_array().unwrap();
    let of_kubelet = missing.iter().find(|one| {
        let path = one["path"].as_str().unwrap();
        path == format!("pods/{}/kubelet.json", pod.uid())
    });
    let why = of_kubelet.unwrap()["why"].as_str().unwrap();
    assert!(why.contains("503"), "{why}");
    assert!(
        missing
            .iter()
            .any(|one| one["path"] == "run/timeline.jsonl")
    );
}

#[test]
fn size_limit_is_respected() {
    let Some(node) = enforcing() else { return };
    let _pods = ["one", "two"].map(|name| node.run(&PodSpec::job(name)));
    let folder = place(&node, "small");
    let arguments = [
        "sysdump",
        "--size",
        "3KiB",
        "--directory",
        folder.to_str().unwrap(),
    ];
    let ran = run(&node, &arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("incomplete: raise"), "{ran:?}");
    let mut files = files(&folder);
    let manifest = files.remove("manifest.json").unwrap();
    assert!(files.values().map(String::len).sum::<usize>() <= 3 * 1024);
    assert!(manifest.contains("exceed the rest of --size"));
    let none = ["sysdump", "--timeout", "0s", "-w", "/dev/null"];
    assert_eq!(run(&node, &none).code, Some(1));
}

#[test]
fn sysdump_of_one_pod() {
    let Some(node) = enforcing() else { return };
    let [one, two] = ["one", "two"].map(|name| node.run(&PodSpec::job(name)));
    let files = laid(&node, "alone", &["--pod", "default/one"]);
    assert!(files.keys().any(|name| name.contains(one.uid())));
    assert!(!files.keys().any(|name| name.contains(two.uid())));
    let ran = run(&node, &["sysdump", "--pod", "three", "-w", "/dev/null"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
}

#[test]
fn live_commands_reject_a_sysdump() {
    let Some(node) = enforcing() else { return };
    let dump = place(&node, "asked.tar.gz").display().to_string();
    answer(&node, &["sysdump", "-w", &dump]);
    for arguments in [&["sysdump"][..], &["cleanup", "--dry-run"]] {
        let ran = run(&node, &[arguments, &["--file", &dump]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("does not support --file"), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1);
    }
    let ran = run(&node, &["pods", "--file", "/dev/null"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("not a sysdump"), "{ran:?}");
}

#[test]
fn only_the_owner_can_read_the_file() {
    let Some(node) = enforcing() else { return };
    let _pod = node.run(&PodSpec::job("kept"));
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let folder = place(&node, "private");
    answer(&node, &["sysdump", "--directory", folder.to_str().unwrap()]);
    let mut folders = vec![folder];
    let mut seen = 0;
    while let Some(next) = folders.pop() {
        assert_eq!(mode(&next), 0o700, "{next:?}");
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{path:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "{seen} files");

    let file = place(&node, "private.tar.gz");
    let to = ["sysdump", "-w", file.to_str().unwrap()];
    answer(&node, &to);
    assert_eq!(mode(&file), 0o600);
    // A directory that seems to belong to another program.
    fs::write(&file, "theirs").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = run(&node, &to);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("--force"), "{ran:?}");
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
    let forced = [&to[..], &["--force"]].concat();
    answer(&node, &forced);
    assert_eq!(mode(&file), 0o600);
    assert!(fs::read(&file).unwrap().starts_with(b"\x1f\x8b"));
    // A symbolic link to that directory.
    let theirs = place(&node, "theirs");
    fs::write(&theirs, "theirs").unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&theirs, &file).unwrap();
    for arguments in [&to[..], &forced] {
        let ran = run(&node, arguments);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    }
    // A path that is not a regular file is written to.
    let mut command = usher::command_on(&node);
    command.args(["sysdump", "-w", "/dev/stdout"]);
    let output = command.stdout(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.starts_with(b"\x1f\x8b"), "{output:?}");
}
