//! `usher cleanup`.

use std::fs;

use usher_tests::synthetic::Node;

use crate::host::{Host, SIDECAR, entered, has_table};

/// The first words of its lines, and their last words.
fn lines(stdout: &str) -> Vec<(&str, &str)> {
    let line = |line: &'_ str| -> Option<(usize, usize)> {
        let (kind, rest) = line.split_once(' ')?;
        let at = rest.rfind(": ")? + kind.len() + 3;
        Some((kind.len(), at))
    };
    stdout
        .lines()
        .filter_map(|text| line(text).map(|(kind, at)| (&text[..kind], &text[at..])))
        .collect()
}

#[test]
fn removes_everything_without_an_agent() {
    if !entered("manual::removes_everything_without_an_agent") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let pod = host.dirty();

    let before = host.files();
    let ran = host.cleanup(&["--dry-run"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(host.files(), before);
    assert!(has_table(&pod));
    let found = lines(&ran.stdout);
    assert!(
        found.iter().all(|(_, fate)| *fate == "would be removed"),
        "{ran:?}"
    );
    let kinds: Vec<&str> = found.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds[..5],
        ["entry", "binary", "temporary", "table", "socket"],
        "{ran:?}"
    );
    assert_eq!(kinds.last(), Some(&"directory"));

    pod.send_line(SIDECAR, "listen");
    // The kernel repeats the SYN of a held connection. One that arrives earlier would be refused.
    pod.wait_line(SIDECAR, "listening 15021 ");
    let ran = host.cleanup(&[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let removed = lines(&ran.stdout);
    assert!(
        removed.iter().all(|(_, fate)| *fate == "removed"),
        "{ran:?}"
    );
    assert_eq!(removed.len(), found.len());
    host.assert_clean(&pod);
    // Held connections continue without usher.
    assert_eq!(pod.client_result("app").code, 0);

    let ran = host.cleanup(&[]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stdout, "usher is not installed on this node\n");
}

#[test]
fn refuses_while_an_agent_runs() {
    if !entered("manual::refuses_while_an_agent_runs") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let agent = host.agent();
    let pod = host.held(&agent);
    let before = host.files();
    let ran = host.cleanup(&[]);
    assert_eq!((ran.code, &ran.stdout[..]), (Some(3), ""));
    assert!(
        ran.stderr.contains("nodeSelector or affinity of the chart"),
        "{ran:?}"
    );
    assert_eq!(host.files(), before);
    assert!(has_table(&pod));
    // A dry run is permitted, and so is `--force`.
    assert_eq!(host.cleanup(&["--dry-run"]).code, Some(0));
    let ran = host.cleanup(&["--force"]);
    assert!(ran.stdout.contains("table     inet usher"), "{ran:?}");
    assert!(!has_table(&pod));
}

#[test]
fn foreign_objects_are_reported_and_kept() {
    if !entered("manual::foreign_objects_are_reported_and_kept") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let pod = host.dirty();
    let broken = "{\"plugins\":[{\"type\":\"usher-cni\"}";
    host.write("net.d/20-broken.conflist", broken);
    fs::write(node.run_dir().join("notes"), "mine").unwrap();
    let ran = host.cleanup(&[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let left: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.contains("LEFT"))
        .collect();
    assert_eq!(left.len(), 4, "{ran:?}");
    for (line, words) in left
        .iter()
        .zip(["20-broken", "still names it", "notes", "is in it"])
    {
        assert!(line.contains(words), "{line}");
    }
    let text = fs::read_to_string(host.path("net.d/20-broken.conflist")).unwrap();
    assert_eq!(text, broken);
    assert!(host.path("bin/usher-cni").exists() && !has_table(&pod));

    fs::remove_file(host.path("net.d/20-broken.conflist")).unwrap();
    fs::remove_file(node.run_dir().join("notes")).unwrap();
    assert_eq!(host.cleanup(&[]).code, Some(0));
    host.assert_clean(&pod);
}

#[test]
fn invalid_command_line_is_rejected() {
    if !entered("manual::invalid_command_line_is_rejected") {
        return;
    }
    let node = Node::new();
    let ran = Host::new(&node).cleanup(&["--everything"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
