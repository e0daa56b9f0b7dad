//! Tests without network namespaces. `tests/tests/cleanup` has the others.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    time::Duration,
};

use tempfile::TempDir;
use usher_core::cleanup::Outcome;

use crate::cleanup::*;

const LIST: &str = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"bridge\"},{\"type\":\"usher-cni\"}]}";

/// A host without processes.
struct Host(TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        for directory in ["net.d", "bin", "run", "proc", "log"] {
            fs::create_dir(host.path(directory)).unwrap();
        }
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn places(&self) -> Places {
        Places {
            conf_dirs: vec![self.path("net.d"), self.path("net.e")],
            bin_dirs: vec![self.path("bin")],
            run_dir: self.path("run"),
            log: self.path("log/cni.log"),
            proc: ProcRoot::new(self.path("proc")),
            grace_period: Duration::ZERO,
        }
    }

    fn dirty() -> Self {
        let host = Self::new();
        host.write("net.d/10-net.conflist", LIST);
        host.write("net.d/20-other.conf", LIST);
        host.write("net.d/.usher-cni.1-2-3.tmp", "half");
        host.write("bin/usher-cni", "binary");
        host.write("bin/bridge", "binary");
        host.write("log/cni.log", "line");
        host.write("log/cni.log.1", "line");
        for name in [
            "timeline.jsonl",
            "namespaces.json",
            "namespaces.json.unreadable",
            "config.yaml.new",
            "cni.log",
        ] {
            host.write(&format!("run/{name}"), "x");
        }
        drop(UnixListener::bind(host.path("run/cni.sock")).unwrap());
        host
    }
}

fn kinds(report: &Report) -> Vec<&'static str> {
    report.lines.iter().map(|line| line.item.kind()).collect()
}

#[test]
fn removes_usher_and_nothing_else() {
    let host = Host::dirty();
    let found = look(&host.places());
    let report = clean(&host.places());
    assert!(report.left().next().is_none(), "{report:#?}");
    assert_eq!(report.lines.len(), found.len());
    assert_eq!(
        kinds(&report),
        [
            "entry",
            "entry",
            "binary",
            "temporary",
            "socket",
            "file",
            "file",
            "file",
            "file",
            "file",
            "file",
            "file",
            "directory"
        ]
    );
    let text = fs::read_to_string(host.path("net.d/10-net.conflist")).unwrap();
    assert!(text.contains("bridge") && !text.contains("usher"), "{text}");
    assert!(host.path("bin/bridge").exists());
    for gone in ["bin/usher-cni", "run", "log/cni.log", "log/cni.log.1"] {
        assert!(!host.path(gone).exists(), "{gone}");
    }
    assert_eq!(look(&host.places()), []);
    assert_eq!(clean(&host.places()), Report::default());
}

#[test]
fn foreign_files_stay_with_their_directory() {
    let host = Host::dirty();
    host.write("run/notes", "mine");
    // These have usher's names, but are neither files nor sockets.
    fs::remove_file(host.path("run/cni.sock")).unwrap();
    fs::create_dir(host.path("run/cni.sock")).unwrap();
    fs::remove_file(host.path("run/timeline.jsonl")).unwrap();
    symlink(host.path("bin/bridge"), host.path("run/timeline.jsonl")).unwrap();
    let report = clean(&host.places());
    let left: Vec<&str> = report.left().map(|line| line.item.kind()).collect();
    assert_eq!(left, ["foreign", "foreign", "foreign", "directory"]);
    assert_eq!(fs::read_to_string(host.path("run/notes")).unwrap(), "mine");
    assert!(host.path("bin/bridge").exists());
}

#[test]
fn broken_list_that_names_the_plugin_keeps_the_binary() {
    let host = Host::dirty();
    host.write(
        "net.d/30-broken.conflist",
        "{\"plugins\": [{\"type\": \"usher-cni\"}",
    );
    host.write("net.d/40-broken.conflist", "{\"plugins\": [");
    let report = clean(&host.places());
    let left: Vec<String> = report.left().map(ToString::to_string).collect();
    assert_eq!(left.len(), 2, "{left:#?}");
    assert!(left[0].contains("30-broken.conflist"), "{left:#?}");
    assert!(left[1].contains("usher-cni: LEFT"), "{left:#?}");
    assert!(host.path("bin/usher-cni").exists());
}

#[test]
fn copy_in_another_plugin_keeps_the_binary_until_it_is_rewritten() {
    let host = Host::dirty();
    let multus = |delegate: &str| format!("{{\"type\":\"multus\",\"delegates\":[{delegate}]}}");
    host.write("net.d/00-multus.conf", &multus(LIST));
    // A link that is broken on the host does not block the removal.
    symlink("/nonexistent/usher", host.path("net.d/05-old.conf")).unwrap();
    let dry = Cleaning::dry_run(look(&host.places()));
    for report in [dry, clean(&host.places()), clean(&host.places())] {
        let left: Vec<String> = report.left().map(ToString::to_string).collect();
        assert_eq!(left.len(), 2, "{left:#?}");
        assert!(
            left[0].contains("00-multus.conf") && left[0].contains("restart Multus"),
            "{left:#?}"
        );
        assert!(left[1].contains("usher-cni: LEFT"), "{left:#?}");
        assert!(host.path("bin/usher-cni").exists());
    }
    let list = fs::read_to_string(host.path("net.d/10-net.conflist")).unwrap();
    assert!(!list.contains("usher-cni"), "{list}");

    host.write("net.d/00-multus.conf", &multus(&list));
    let report = clean(&host.places());
    assert!(report.left().next().is_none(), "{report:#?}");
    assert!(!host.path("bin/usher-cni").exists());
}

/// One removal finds the entry and its copy in the same file.
#[test]
fn copy_beside_the_entry_keeps_the_binary() {
    let host = Host::new();
    host.write("bin/usher-cni", "binary");
    let copy = "{\"type\":\"multus\",\"delegates\":[{\"type\":\"usher-cni\"}]}";
    let list = LIST.replace("{\"type\":\"bridge\"}", copy);
    host.write("net.d/10-net.conflist", &list);
    let report = clean(&host.places());
    assert_eq!(report.left().count(), 2, "{report:#?}");
    assert!(host.path("bin/usher-cni").exists());
    let text = fs::read_to_string(host.path("net.d/10-net.conflist")).unwrap();
    assert_eq!(text.matches("usher-cni").count(), 1, "{text}");
}

#[test]
fn unlisted_entries_keep_the_binary() {
    let host = Host::dirty();
    let looped = host.path("net.d/50-loop.conf");
    symlink(&looped, &looped).unwrap();
    let dry = Cleaning::dry_run(look(&host.places()));
    for report in [dry, clean(&host.places())] {
        let left: Vec<String> = report.left().map(ToString::to_string).collect();
        assert_eq!(left.len(), 2, "{left:#?}");
        assert!(left[0].contains("50-loop.conf"), "{left:#?}");
        assert!(left[1].contains("usher-cni: LEFT"), "{left:#?}");
        assert!(host.path("bin/usher-cni").exists());
    }
    fs::remove_file(&looped).unwrap();
    let report = clean(&host.places());
    assert!(report.left().next().is_none(), "{report:#?}");
    assert!(!host.path("bin/usher-cni").exists());
}

/// Another installer reads the file before the removal and writes it afterwards.
#[test]
fn restored_entry_keeps_the_binary() {
    let host = Host::dirty();
    let places = host.places();
    let mut cleaning = Cleaning::new(look(&places));
    while let Some(step) = cleaning.step() {
        match step {
            Step::WaitForRuntime => host.write("net.d/10-net.conflist", LIST),
            Step::Remove(item) => cleaning.done(remove(&item, &places)),
        }
    }
    let left: Vec<String> = cleaning.report().left().map(ToString::to_string).collect();
    assert_eq!(left.len(), 1, "{left:#?}");
    assert!(left[0].contains("10-net.conflist"), "{left:#?}");
    assert!(host.path("bin/usher-cni").exists());
    let report = clean(&places);
    assert!(report.left().next().is_none(), "{report:#?}");
    assert!(!host.path("bin/usher-cni").exists());
}

#[test]
fn dry_run_changes_nothing() {
    let host = Host::dirty();
    let report = Cleaning::dry_run(look(&host.places()));
    assert!(
        report
            .lines
            .iter()
            .all(|line| line.outcome == Outcome::WouldRemove)
    );
    assert_eq!(look(&host.places()).len(), report.lines.len());
}

#[test]
fn unreadable_places_are_reported() {
    let host = Host::new();
    let mut places = host.places();
    fs::remove_dir(host.path("run")).unwrap();
    host.write("run", "a file");
    places.proc = ProcRoot::new(host.path("none"));
    let report = clean(&places);
    let left: Vec<&str> = report.left().map(|line| line.item.kind()).collect();
    assert_eq!(left, ["unreadable", "foreign"]);
}

#[test]
fn agent_runs_while_it_listens() {
    let host = Host::new();
    assert!(!agent_lives(&host.places()).unwrap());
    host.write("run/cni.sock", "");
    assert!(!agent_lives(&host.places()).unwrap());
}
