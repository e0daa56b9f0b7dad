//! Obstacles of an installation, and the paths in their errors.

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount, umount},
    sched::{CloneFlags, unshare},
};
use usher_core::{cni::conflist::Kind, kube_event::Reason};

use super::host::*;
use crate::{install::cni::State, kubernetes::events::EventPublisher};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn waits_for_the_directory_and_the_first_network() {
    let host = Host::new();
    fs::remove_dir(host.conf_dir()).unwrap();
    let mut installer = host.installer();
    let now = Instant::now();
    assert_eq!(installer.reconcile(now), Some(now + MINUTE));
    let waiting = State::Waiting {
        why: "no network configuration".to_owned(),
    };
    assert_eq!(installer.state, Some(waiting.clone()));
    fs::create_dir(host.conf_dir()).unwrap();
    host.write("README", LIST);
    installer.reconcile(Instant::now());
    assert_eq!(installer.state, Some(waiting));
    host.write(LIST_FILE, LIST);
    settle(&mut installer, Instant::now());
    assert_eq!(installer.state, installed(LIST_FILE));
}

#[test]
fn missing_network_is_a_failure_after_a_while() {
    let host = Host::new();
    let mut installer = host.installer();
    let metrics = Arc::clone(&installer.reporter.metrics);
    let (sender, mut events) = EventPublisher::new("node-1", metrics);
    installer.reporter.events = sender;
    let readiness = Arc::clone(&installer.readiness);
    let is_settled = || readiness.plugin_settled.load(Ordering::Acquire);
    let start = Instant::now();
    let end = start + MINUTE;
    assert_eq!(installer.reconcile(start), Some(end));
    // Other changes do not restart the wait.
    host.write("README", LIST);
    assert_eq!(installer.reconcile(start + MINUTE / 2), Some(end));
    assert!(!is_settled() && events.reasons().is_empty());
    for _ in 0..2 {
        assert_eq!(installer.reconcile(end), None);
        assert!(error(&installer).starts_with("no network configuration; helm upgrade"));
    }
    assert!(
        readiness
            .waits()
            .iter()
            .any(|why| why.contains("--set platform=NAME"))
    );
    assert!(is_settled());
    assert_eq!(events.reasons(), [Reason::CniPluginInstallFailed]);
    host.write(LIST_FILE, LIST);
    let end = settle(&mut installer, end);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(events.reasons(), [Reason::CniPluginInstalled]);
    assert!(
        !readiness
            .waits()
            .iter()
            .any(|why| why.contains("CNI plugin"))
    );
    // The next wait is as long as the first.
    fs::remove_file(host.conf_dir().join(LIST_FILE)).unwrap();
    assert_eq!(installer.reconcile(end + MINUTE), Some(end + 2 * MINUTE));
}

/// The Event about the failure would be the last one.
#[test]
fn installation_after_a_failure_and_a_wait_is_reported() {
    let host = Host::with(LIST_FILE, LIST);
    fs::remove_file(host.bin_dir().join("bridge")).unwrap();
    let mut installer = host.installer();
    let metrics = Arc::clone(&installer.reporter.metrics);
    let (sender, mut events) = EventPublisher::new("node-1", metrics);
    installer.reporter.events = sender;
    let start = Instant::now();
    installer.reconcile(start);
    assert_eq!(events.reasons(), [Reason::CniPluginInstallFailed]);
    fs::remove_file(host.conf_dir().join(LIST_FILE)).unwrap();
    installer.reconcile(start + MINUTE);
    assert!(matches!(installer.state, Some(State::Waiting { .. })));
    fs::write(host.bin_dir().join("bridge"), "not usher's").unwrap();
    host.write(LIST_FILE, LIST);
    let end = settle(&mut installer, start + MINUTE);
    assert_eq!(events.reasons(), [Reason::CniPluginInstalled]);
    // A restored entry is no news.
    host.write(LIST_FILE, LIST);
    settle(&mut installer, end + MINUTE);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert!(events.reasons().is_empty());
}

#[test]
fn entry_that_cannot_be_removed_is_no_failed_installation() {
    let host = Host::with(LIST_FILE, LIST);
    let (mut installer, wanted) = host.installer_with(&[]);
    let metrics = Arc::clone(&installer.reporter.metrics);
    let (sender, mut events) = EventPublisher::new("node-1", metrics);
    installer.reporter.events = sender;
    let now = settle(&mut installer, Instant::now()) + MINUTE;
    let text = host.text(LIST_FILE);
    // Another program is writing the file.
    host.write(LIST_FILE, &text[..text.len() - 10]);
    wanted.send(false).unwrap();
    installer.reconcile(now);
    assert!(
        matches!(installer.state, Some(State::StillThere { .. })),
        "{:?}",
        installer.state
    );
    assert!(events.reasons().is_empty());
    assert_eq!(installer.reporter.metrics.cni_installed.get(), 1);
    let waits = installer.readiness.waits();
    assert!(
        waits.iter().any(|why| why.contains("is not removed")),
        "{waits:?}"
    );
    host.write(LIST_FILE, &text);
    settle(&mut installer, now + MINUTE);
    assert_eq!(installer.state, Some(State::Unwanted));
    assert_eq!(host.text(LIST_FILE), LIST);
}

#[test]
fn unfinished_file_is_awaited_and_the_next_one_stays_unchanged() {
    let host = Host::with(LIST_FILE, LIST);
    host.write("20-next.conflist", LIST);
    let mut installer = host.installer();
    let start = settle(&mut installer, Instant::now()) + MINUTE;
    host.write(LIST_FILE, &LIST[..20]);
    assert_eq!(installer.reconcile(start), Some(start + SECOND));
    assert_eq!(
        installer.reconcile(start + SECOND / 2),
        Some(start + SECOND)
    );
    assert_eq!(host.text("20-next.conflist"), LIST);
    assert_eq!(
        installer.reporter.metrics.cni_installed.get(),
        1,
        "not reported yet"
    );
    host.write(LIST_FILE, LIST);
    assert_eq!(installer.reconcile(start + SECOND), None);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(host.text("20-next.conflist"), LIST);
}

#[test]
fn invalid_file_is_skipped_after_a_while() {
    let host = Host::with("00-broken.conf", "{");
    host.write(LIST_FILE, LIST);
    let mut installer = host.installer();
    let start = Instant::now();
    assert_eq!(installer.reconcile(start), Some(start + SECOND));
    assert_eq!(host.text(LIST_FILE), LIST);
    let now = settle(&mut installer, start + SECOND);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(host.text("00-broken.conf"), "{");
    host.write(LIST_FILE, "[]");
    installer.reconcile(now);
    let Some(State::Waiting { why }) = &installer.state else {
        panic!("{:?}", installer.state);
    };
    assert!(
        why.contains("00-broken.conf: not JSON: EOF") && why.contains(LIST_FILE),
        "{why}"
    );
}

/// A runtime that does not find a plugin of its list starts no pod.
#[test]
fn directory_without_the_plugins_of_the_list_is_not_the_runtimes() {
    let host = Host::with(LIST_FILE, LIST);
    fs::remove_file(host.bin_dir().join("bridge")).unwrap();
    let mut installer = host.installer();
    let readiness = Arc::clone(&installer.readiness);
    let start = Instant::now();
    assert!(installer.reconcile(start).is_some());
    assert_eq!(host.text(LIST_FILE), LIST);
    let reported = error(&installer);
    assert!(
        reported.contains("bridge") && reported.contains("cni.binDir"),
        "{reported}"
    );
    assert!(
        readiness
            .waits()
            .iter()
            .any(|why| why.contains("cni.binDir"))
    );
    fs::write(host.bin_dir().join("bridge"), "not usher's").unwrap();
    settle(&mut installer, start + MINUTE);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert!(
        !readiness
            .waits()
            .iter()
            .any(|why| why.contains("CNI plugin"))
    );
}

#[test]
fn foreign_list_is_not_overwritten() {
    let host = Host::with(CONF_FILE, CONF);
    host.write(LIST_FILE, LIST);
    let mut installer = host.installer();
    assert!(installer.reconcile(Instant::now()).is_some());
    let reported = error(&installer);
    assert!(
        reported.contains(LIST_FILE) && reported.contains(CONF_FILE),
        "{reported}"
    );
    assert_eq!(host.text(LIST_FILE), LIST);
    assert_eq!(host.text(CONF_FILE), CONF);
}

#[test]
fn file_that_is_not_utf8_stays_unchanged() {
    let host = Host::new();
    let path = host.conf_dir().join(LIST_FILE);
    let mut bytes = LIST.as_bytes().to_owned();
    let at = LIST.find("bridge").unwrap();
    // Go's JSON parser replaces the byte by U+FFFD.
    bytes[at] = 0xff;
    fs::write(&path, &bytes).unwrap();
    let mut installer = host.installer();
    assert!(installer.reconcile(Instant::now()).is_some());
    assert!(error(&installer).ends_with("10-net.conflist\" is not UTF-8"));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn directories_and_pipes_are_skipped_and_too_many_files_rejected() {
    let host = Host::with(LIST_FILE, LIST);
    fs::create_dir(host.conf_dir().join("00.conf")).unwrap();
    let pipe = host.conf_dir().join("01.conf");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut installer = host.installer();
    assert_eq!(installer.reconcile(Instant::now()), None);
    assert_eq!(installer.state, installed(LIST_FILE));
    for number in 0..64 {
        host.write(&format!("50-{number}.conf"), CONF);
    }
    assert!(installer.reconcile(Instant::now()).is_some());
    assert!(error(&installer).contains("more than 64"));
}

#[test]
fn missing_source_and_missing_directory_are_reported() {
    let host = Host::with(LIST_FILE, LIST);
    fs::remove_file(host.path("usher-cni")).unwrap();
    let mut installer = host.installer();
    let start = Instant::now();
    let again = installer.reconcile(start).unwrap();
    assert!(error(&installer).contains("usher-cni\" is not a file"));
    assert_eq!(again, start + Duration::from_millis(200));
    assert_eq!(host.text(LIST_FILE), LIST);
    host.provide("plugin");
    fs::remove_dir_all(host.bin_dir()).unwrap();
    let later = installer.reconcile(again).unwrap();
    assert!(
        error(&installer).contains("creating \""),
        "{}",
        error(&installer)
    );
    assert_eq!(later, again + Duration::from_millis(400));
    host.create_bin_dir();
    assert_eq!(installer.reconcile(later), None);
    assert_eq!(installer.state, installed(LIST_FILE));
}

/// The earlier plugin works as before.
#[test]
fn failed_update_reports_what_is_in_place() {
    let host = Host::with(LIST_FILE, LIST);
    let now = settle(&mut host.installer(), Instant::now());
    // The next agent has other settings, and no plugin.
    let text = host
        .text(LIST_FILE)
        .replace("usher-cni\"", "usher-cni\",\"old\":1");
    host.write(LIST_FILE, &text);
    fs::remove_file(host.path("usher-cni")).unwrap();
    let mut installer = host.installer();
    let metrics = Arc::clone(&installer.reporter.metrics);
    let (sender, mut events) = EventPublisher::new("node-1", metrics);
    installer.reporter.events = sender;
    let again = installer.reconcile(now).unwrap();
    let plugin = installer.state.as_ref().unwrap().plugin();
    assert!(plugin.installed && plugin.failed, "{plugin:?}");
    assert_eq!(installer.reporter.metrics.cni_installed.get(), 1);
    let waits = installer.readiness.waits();
    assert!(
        waits.iter().any(|why| why.contains("is not updated")),
        "{waits:?}"
    );
    assert_eq!(events.reasons(), [Reason::CniPluginInstallFailed]);
    host.write(LIST_FILE, LIST);
    let again = installer.reconcile(again).unwrap();
    assert_eq!(installer.reporter.metrics.cni_installed.get(), 0);
    host.provide("plugin 2");
    settle(&mut installer, again);
    assert_eq!(installer.state, installed(LIST_FILE));
}

/// An entry without a binary blocks every pod.
#[test]
fn entry_is_removed_when_its_binary_cannot_be_restored() {
    let host = Host::with(LIST_FILE, LIST);
    let mut installer = host.installer();
    let now = settle(&mut installer, Instant::now());
    fs::remove_dir_all(host.bin_dir()).unwrap();
    let again = installer.reconcile(now).unwrap();
    assert_eq!(host.text(LIST_FILE), LIST);
    host.create_bin_dir();
    settle(&mut installer, again);
    assert_eq!(host.text(LIST_FILE), host.inserted(LIST, Kind::ConfList));
    host.assert_callable();
}

#[test]
fn read_only_directories_are_reported_and_retried() {
    let run = || {
        for name in ["bin", "net.d"] {
            let host = Host::with(LIST_FILE, LIST);
            if !read_only(&host, name) {
                return;
            }
        }
    };
    // On a separate thread, which ends its mounts.
    thread::spawn(run).join().unwrap();
}

/// False if this process may not mount, which is a failure with `CI=true`.
fn read_only(host: &Host, name: &str) -> bool {
    let dir = host.path(name);
    if let Err(errno) = mount_read_only(&dir) {
        let is_pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(
            !is_pipeline,
            "cannot mount, and CI=true forbids to skip: {errno}"
        );
        eprintln!("SKIPPED: mounting: {errno}");
        return false;
    }
    let mut installer = host.installer();
    let start = Instant::now();
    let again = installer.reconcile(start).unwrap();
    let reported = error(&installer);
    assert!(
        reported.contains(&format!("/{name}/.usher-cni.")),
        "{reported}"
    );
    assert!(reported.contains("Read-only file system"), "{reported}");
    assert_eq!(again, start + Duration::from_millis(200));
    // An attempt's own changes do not trigger the next attempt.
    assert_eq!(installer.reconcile(start), Some(again));
    assert_eq!(error(&installer), reported);
    assert_eq!(host.text(LIST_FILE), LIST);
    let later = installer.reconcile(again).unwrap();
    umount(&dir).unwrap();
    assert_eq!(installer.reconcile(later), None);
    assert_eq!(installer.state, installed(LIST_FILE));
    true
}

/// Makes a directory read-only, for root as well.
fn mount_read_only(dir: &Path) -> nix::Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(dir), dir, none, MsFlags::MS_BIND, none)?;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, dir, none, flags, none)
}
