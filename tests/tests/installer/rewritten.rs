//! Another program writes the configuration ten times a second for ten seconds, each time without our entry.

use std::{
    fs::OpenOptions,
    io::Write,
    time::{Duration, Instant},
};

use serde_json::Value;
use usher_tests::{privilege, synthetic::Node};

use crate::{
    host::{Host, PLUGIN, pause},
    reader::Reader,
};

const FILE: &str = "10-net.conflist";
/// Another network that is not used, and must stay unchanged while the first is incomplete.
const OTHER: &str = "20-other.conflist";
const DURATION: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(100);
/// The time in which a non-atomic writer leaves an incomplete file.
const HALF_TIME: Duration = Duration::from_millis(3);
/// With pauses of 0, 0.2, 0.4 s and so on, ten seconds have room for six repairs, and fewer if a write was lost.
const MOST_TIMES: f64 = 8.0;

/// The text of a round, different in each round.
fn text(round: usize) -> String {
    format!(
        "{{\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"n\",\n  \"plugins\": [\n    {{\"type\": \"bridge\", \"round\": \
         {round}}},\n    {{\"type\": \"portmap\"}}\n  ]\n}}\n"
    )
}

/// As `cp` does: the file is empty, then half, then complete.
fn overwrite(host: &Host<'_>, round: usize) {
    let path = host.networks.join(FILE);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).truncate(true).open(path).unwrap();
    let text = text(round);
    let (first, rest) = text.split_at(text.len() / 2);
    for part in [first, rest] {
        file.write_all(part.as_bytes()).unwrap();
        pause(HALF_TIME);
    }
}

fn rename(host: &Host<'_>, round: usize) {
    host.write(FILE, &text(round));
}

/// Whether a writer has written this so far.
fn is_part_of_a_round(found: &str, rounds: usize) -> bool {
    (0..=rounds).any(|round| text(round).starts_with(found))
}

fn fight(write: fn(&Host<'_>, usize), is_whole: bool) {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    host.write(FILE, &text(0));
    host.write(OTHER, &text(0));
    let agent = host.start();
    host.wait_installed(&agent, FILE);
    let reader = Reader::start(&host.networks);
    let start = Instant::now();
    let mut round = 0;
    while start.elapsed() < DURATION {
        round += 1;
        write(&host, round);
        pause(INTERVAL);
    }
    let reinstalled = || agent.metric("usher_cni_reinstalls_total", "");
    let before = reinstalled();
    host.wait_installed(&agent, FILE);
    let after = reinstalled();
    assert!(after <= before + 1.0, "{before}, then {after}");
    assert!(
        (1.0..=MOST_TIMES).contains(&after),
        "put back {after} times"
    );
    let inode = host.inode(FILE);
    let findings = reader.stop();

    // The last text of the writer is there, with our entry added.
    let value: Value = serde_json::from_str(&host.text(FILE)).unwrap();
    assert_eq!(value["plugins"][0]["round"], round);
    assert_eq!(value["plugins"][2]["type"], PLUGIN);
    assert_eq!(host.text(OTHER), text(0));
    let ours = |found: &&String| is_whole || !is_part_of_a_round(found, round);
    let ours: Vec<_> = findings.invalid.iter().filter(ours).collect();
    assert!(ours.is_empty(), "{ours:#?}");
    assert!(
        findings.with_entry > 0 && findings.reads > round,
        "{findings:?}"
    );
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(host.inode(FILE), inode, "written again when all was right");
    host.uninstall("0s");
    assert_eq!(host.text(FILE), text(round));
}

#[test]
fn by_renaming() {
    fight(rename, true);
}

#[test]
fn in_place() {
    fight(overwrite, false);
}
