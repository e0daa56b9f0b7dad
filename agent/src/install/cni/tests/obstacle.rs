//! What stands in the way, and is said with its place.

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
fn no_directory_and_no_network_yet() {
    let host = Host::new();
    fs::remove_dir(host.conf_dir()).unwrap();
    let mut installer = host.installer();
    let now = Instant::now();
    assert_eq!(installer.look(now), Some(now + MINUTE));
    let waiting = State::Waiting {
        why: "no network configuration".to_owned(),
    };
    assert_eq!(installer.state, Some(waiting.clone()));
    fs::create_dir(host.conf_dir()).unwrap();
    host.write("README", LIST);
    installer.look(Instant::now());
    assert_eq!(installer.state, Some(waiting));
    host.write(LIST_FILE, LIST);
    settle(&mut installer, Instant::now());
    assert_eq!(installer.state, installed(LIST_FILE));
}

#[test]
fn nobody_waits_for_a_network_for_ever() {
    let host = Host::new();
    let mut installer = host.installer();
    let metrics = Arc::clone(&installer.reporter.metrics);
    let (sender, mut events) = EventPublisher::new("node-1", metrics);
    installer.reporter.events = sender;
    let readiness = Arc::clone(&installer.readiness);
    let is_settled = || readiness.plugin_settled.load(Ordering::Acquire);
    let start = Instant::now();
    let end = start + MINUTE;
    assert_eq!(installer.look(start), Some(end));
    // What happens meanwhile makes it no later.
    host.write("README", LIST);
    assert_eq!(installer.look(start + MINUTE / 2), Some(end));
    assert!(!is_settled() && events.reasons().is_empty());
    for _ in 0..2 {
        assert_eq!(installer.look(end), None);
        assert_eq!(error(&installer), "no network configuration");
    }
    assert!(is_settled());
    assert_eq!(events.reasons(), [Reason::CniPluginInstallFailed]);
    host.write(LIST_FILE, LIST);
    let end = settle(&mut installer, end);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(events.reasons(), [Reason::CniPluginInstalled]);
    // The next time takes as long.
    fs::remove_file(host.conf_dir().join(LIST_FILE)).unwrap();
    assert_eq!(installer.look(end + MINUTE), Some(end + 2 * MINUTE));
}

#[test]
fn half_a_file_is_waited_for_and_the_next_one_left_alone() {
    let host = Host::with(LIST_FILE, LIST);
    host.write("20-next.conflist", LIST);
    let mut installer = host.installer();
    let start = settle(&mut installer, Instant::now()) + MINUTE;
    host.write(LIST_FILE, &LIST[..20]);
    assert_eq!(installer.look(start), Some(start + SECOND));
    assert_eq!(installer.look(start + SECOND / 2), Some(start + SECOND));
    assert_eq!(host.text("20-next.conflist"), LIST);
    assert_eq!(
        installer.reporter.metrics.cni_installed.get(),
        1,
        "not told yet"
    );
    host.write(LIST_FILE, LIST);
    assert_eq!(installer.look(start + SECOND), None);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(host.text("20-next.conflist"), LIST);
}

#[test]
fn broken_file_is_passed_over_in_the_end() {
    let host = Host::with("00-broken.conf", "{");
    host.write(LIST_FILE, LIST);
    let mut installer = host.installer();
    let start = Instant::now();
    assert_eq!(installer.look(start), Some(start + SECOND));
    assert_eq!(host.text(LIST_FILE), LIST);
    let now = settle(&mut installer, start + SECOND);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(host.text("00-broken.conf"), "{");
    host.write(LIST_FILE, "[]");
    installer.look(now);
    let Some(State::Waiting { why }) = &installer.state else {
        panic!("{:?}", installer.state);
    };
    assert!(
        why.contains("00-broken.conf: not JSON: EOF") && why.contains(LIST_FILE),
        "{why}"
    );
}

#[test]
fn other_list_in_the_way_is_not_overwritten() {
    let host = Host::with(CONF_FILE, CONF);
    host.write(LIST_FILE, LIST);
    let mut installer = host.installer();
    assert!(installer.look(Instant::now()).is_some());
    let said = error(&installer);
    assert!(
        said.contains(LIST_FILE) && said.contains(CONF_FILE),
        "{said}"
    );
    assert_eq!(host.text(LIST_FILE), LIST);
    assert_eq!(host.text(CONF_FILE), CONF);
}

#[test]
fn what_is_no_text_is_left_alone() {
    let host = Host::new();
    let path = host.conf_dir().join(LIST_FILE);
    let mut bytes = LIST.as_bytes().to_owned();
    let at = LIST.find("bridge").unwrap();
    // Go reads it as the character for what cannot be shown.
    bytes[at] = 0xff;
    fs::write(&path, &bytes).unwrap();
    let mut installer = host.installer();
    assert!(installer.look(Instant::now()).is_some());
    assert!(error(&installer).ends_with("10-net.conflist\" is not UTF-8"));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn directories_pipes_and_too_many_files() {
    let host = Host::with(LIST_FILE, LIST);
    fs::create_dir(host.conf_dir().join("00.conf")).unwrap();
    let pipe = host.conf_dir().join("01.conf");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut installer = host.installer();
    assert_eq!(installer.look(Instant::now()), None);
    assert_eq!(installer.state, installed(LIST_FILE));
    for number in 0..64 {
        host.write(&format!("50-{number}.conf"), CONF);
    }
    assert!(installer.look(Instant::now()).is_some());
    assert!(error(&installer).contains("more than 64"));
}

#[test]
fn no_plugin_in_the_image_and_no_directory_for_it() {
    let host = Host::with(LIST_FILE, LIST);
    fs::remove_file(host.path("usher-cni")).unwrap();
    let mut installer = host.installer();
    let start = Instant::now();
    let again = installer.look(start).unwrap();
    assert!(error(&installer).contains("usher-cni\" is no file"));
    assert_eq!(again, start + Duration::from_millis(200));
    assert_eq!(host.text(LIST_FILE), LIST);
    host.provide("plugin");
    fs::remove_dir(host.bin_dir()).unwrap();
    let later = installer.look(again).unwrap();
    assert!(
        error(&installer).contains("creating \""),
        "{}",
        error(&installer)
    );
    assert_eq!(later, again + Duration::from_millis(400));
    fs::create_dir(host.bin_dir()).unwrap();
    assert_eq!(installer.look(later), None);
    assert_eq!(installer.state, installed(LIST_FILE));
}

/// Without its binary the entry stops every pod.
#[test]
fn entry_goes_when_its_binary_cannot_be_put_back() {
    let host = Host::with(LIST_FILE, LIST);
    let mut installer = host.installer();
    let now = settle(&mut installer, Instant::now());
    fs::remove_dir_all(host.bin_dir()).unwrap();
    let again = installer.look(now).unwrap();
    assert_eq!(host.text(LIST_FILE), LIST);
    fs::create_dir(host.bin_dir()).unwrap();
    settle(&mut installer, again);
    assert_eq!(host.text(LIST_FILE), host.inserted(LIST, Kind::ConfList));
    host.assert_callable();
}

#[test]
fn read_only_directories_are_named_and_tried_again() {
    let run = || {
        for name in ["bin", "net.d"] {
            let host = Host::with(LIST_FILE, LIST);
            if !read_only(&host, name) {
                return;
            }
        }
    };
    // On a thread of its own, whose mounts end with it.
    thread::spawn(run).join().unwrap();
}

/// False where this process may not mount; with `CI=true` that is a failure.
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
    let again = installer.look(start).unwrap();
    let said = error(&installer);
    assert!(said.contains(&format!("/{name}/.usher-cni.")), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    assert_eq!(again, start + Duration::from_millis(200));
    // What our own attempts change in the directory makes none of them sooner.
    assert_eq!(installer.look(start), Some(again));
    assert_eq!(error(&installer), said);
    assert_eq!(host.text(LIST_FILE), LIST);
    let later = installer.look(again).unwrap();
    umount(&dir).unwrap();
    assert_eq!(installer.look(later), None);
    assert_eq!(installer.state, installed(LIST_FILE));
    true
}

/// A directory that nobody can write, also not root.
fn mount_read_only(dir: &Path) -> nix::Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(dir), dir, none, MsFlags::MS_BIND, none)?;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, dir, none, flags, none)
}
