//! Unusual names and annotations.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use usher_tests::synthetic::wire::Mischief;
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{all_done, another_is_quit, done, enforcing, finish_and_quit, hostile, is_sound};

/// The limit of all annotations of an object together: 256 KiB
/// (`TotalAnnotationSizeLimitB` of Kubernetes' `api/validation`).
const LONGEST: usize = 256 * 1024;
const MANY: usize = 5_000;
/// Contains a newline, clears the screen, is not UTF-8, looks like a field of the kernel's.
const NAME: &[u8] = b"\n\x1b[2J\xff) R 1 \x9b";

/// The agent reads its status, its stat and its name.
#[test]
fn of_processes() {
    let Some(node) = enforcing() else { return };
    let before = done(&node, &hostile("before", Mischief::default().named(NAME)));
    let agent = Agent::start(&node);
    let after = all_done(&node, |name| hostile(name, Mischief::default().named(NAME)));
    another_is_quit(&node, &agent, "other");
    for pod in [&before].into_iter().chain(&after) {
        finish_and_quit(&agent, pod);
    }
    let lines = agent.log().lines();
    let controls = |line: &serde_json::Value| line["text"].as_str().is_some();
    assert!(
        !lines.iter().any(controls),
        "a line that is no JSON: {lines:?}"
    );
    is_sound(&agent);
}

/// Directories of a cgroup tree with names that only resemble those of pods and containers.
#[test]
fn of_cgroups() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("inside"));
    let [pods, inside] = [pod.cgroup().parent().unwrap(), pod.cgroup()];
    let made: Vec<_> = [pods, inside]
        .iter()
        .flat_map(|place| {
            names()
                .into_iter()
                .map(|name| place.join(OsStr::from_bytes(&name)))
        })
        .filter(|path| std::fs::create_dir(path).is_ok())
        .collect();
    assert!(made.len() > 10, "{made:?}");
    let agent = Agent::start(&node);
    agent.wait_metric("usher_pods", "", |pods| pods > 0.5);
    finish_and_quit(&agent, &pod);
    another_is_quit(&node, &agent, "other");
    // And directories that appear while it watches.
    made.iter().for_each(|path| remade(path));
    another_is_quit(&node, &agent, "later");
    is_sound(&agent);
    made.iter().for_each(|path| drop(std::fs::remove_dir(path)));
}

fn remade(path: &Path) {
    std::fs::remove_dir(path).unwrap();
    std::fs::create_dir(path).unwrap();
}

fn names() -> Vec<Vec<u8>> {
    let mut long = b"pod".to_vec();
    long.resize(255, b'a');
    let mut container = b"cri-containerd-".to_vec();
    container.extend([b'f'; 63]);
    container.extend(b"\xff.scope");
    vec![
        b"pod".to_vec(),
        b"pod\n\x1b[2J".to_vec(),
        b"pod\xff\xfe".to_vec(),
        b"podkubepods.slice".to_vec(),
        b"pod........-....-....-....-............".to_vec(),
        b"kubepods-besteffort-pod\x7f.slice".to_vec(),
        long,
        container,
        [0xc3; 64].to_vec(),
        b"crio-conmon-".to_vec(),
    ]
}

/// The agent reads its own settings from them, and ignores the rest.
#[test]
fn of_annotations() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let huge = "\u{9b}31m\u{202e},=:\n".repeat(LONGEST / 9);
    let tuned = [
        "usher.dev/sidecars",
        "usher.dev/quit-delay",
        "usher.dev/drain",
    ];
    let pods = tuned
        .map(|key| node.run(&PodSpec::job(key.rsplit('/').next().unwrap()).annotation(key, &huge)));
    let many = (0..MANY).fold(PodSpec::job("many"), |spec, number| {
        spec.annotation(&format!("usher.dev/k{number}\x1b"), "v\x1b[2J")
    });
    let many = node.run(&many);
    another_is_quit(&node, &agent, "other");
    for pod in pods.iter().chain([&many]) {
        finish_and_quit(&agent, pod);
    }
    let longest = agent
        .log()
        .lines()
        .iter()
        .map(|line| line.to_string().len())
        .max();
    // A bad value is reported, and truncated.
    assert!(longest.unwrap() < 16 * 1024, "{longest:?}");
    is_sound(&agent);
}
