//! Installation, restoration and removal of the plugin.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown, symlink},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{task::LocalSet, time::timeout};
use usher_core::cni::conflist::Kind;

use super::host::*;
use crate::install::cni::State;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn installs_binary_and_entry_and_nothing_else() {
    let host = Host::with(LIST_FILE, LIST);
    let mut installer = host.installer();
    assert_eq!(installer.reconcile(Instant::now()), None);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(host.binary().unwrap(), "plugin 1");
    assert_eq!(host.text(LIST_FILE), host.inserted(LIST, Kind::ConfList));
    assert_eq!(host.files().len(), 1);
    assert_eq!(files(&host.bin_dir()).len(), 3);
    assert_eq!(installer.reporter.metrics.cni_installed.get(), 1);
    assert_eq!(installer.reporter.metrics.cni_reinstalled.get(), 0);
}

#[test]
fn writes_nothing_when_the_entry_is_correct() {
    let host = Host::with(LIST_FILE, LIST);
    host.installer().reconcile(Instant::now());
    let inode = host.inode(LIST_FILE);
    let binary = fs::metadata(host.bin_dir().join("usher-cni"))
        .unwrap()
        .ino();
    let mut again = host.installer();
    for _ in 0..3 {
        assert_eq!(again.reconcile(Instant::now()), None);
    }
    assert_eq!(host.inode(LIST_FILE), inode);
    let after = fs::metadata(host.bin_dir().join("usher-cni"))
        .unwrap()
        .ino();
    assert_eq!(after, binary);
}

#[test]
fn changed_removed_or_broken_binary_is_installed_again() {
    let host = Host::with(LIST_FILE, LIST);
    let mut installer = host.installer();
    let mut now = settle(&mut installer, Instant::now());
    host.provide("plugin 2");
    now = settle(&mut installer, now + MINUTE);
    assert_eq!(host.binary().unwrap(), "plugin 2");
    fs::remove_file(host.bin_dir().join("usher-cni")).unwrap();
    // Without a delay, because pods cannot start or end without the binary.
    assert_eq!(installer.reconcile(now), None);
    assert_eq!(host.binary().unwrap(), "plugin 2");
    host.set_mode("bin/usher-cni", 0o644);
    settle(&mut installer, now + MINUTE);
    assert_eq!(host.binary().unwrap(), "plugin 2");
}

#[test]
fn mode_and_owner_are_kept() {
    let host = Host::with(LIST_FILE, LIST);
    host.set_mode("net.d/10-net.conflist", 0o640);
    let path = host.conf_dir().join(LIST_FILE);
    let is_root = nix::unistd::Uid::effective().is_root();
    if is_root {
        chown(&path, Some(12), Some(34)).unwrap();
    }
    host.installer().reconcile(Instant::now());
    let seen = fs::metadata(&path).unwrap();
    assert_eq!(seen.mode() & 0o7777, 0o640);
    if is_root {
        assert_eq!((seen.uid(), seen.gid()), (12, 34));
    }
    assert!(host.text(LIST_FILE).contains("usher-cni"));
}

#[test]
fn single_configuration_becomes_a_list() {
    for (name, list) in [
        (CONF_FILE, LIST_FILE),
        ("10-net.json", "10-net.json.conflist"),
    ] {
        let host = Host::with(name, CONF);
        host.set_mode(&format!("net.d/{name}"), 0o600);
        let mut installer = host.installer();
        assert_eq!(installer.reconcile(Instant::now()), None);
        let files = host.files();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[list], host.inserted(CONF, Kind::Conf));
        assert_eq!(installer.state, installed(list));
        let path = host.conf_dir().join(list);
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o600);
        // The file's owner creates it again with other settings.
        let other = CONF.replace("bridge", "ptp");
        host.write(name, &other);
        settle(&mut installer, Instant::now());
        let files = host.files();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[list], host.inserted(&other, Kind::Conf));
        // The same after an uninstallation, which leaves a list.
        host.uninstall().unwrap();
        assert_eq!(host.read_as_containerd().unwrap(), list);
        host.write(name, &other);
        settle(&mut host.installer(), Instant::now());
        assert_eq!(host.files().len(), 1);
    }
}

#[test]
fn removed_entry_is_restored_with_a_backoff() {
    let host = Host::with(LIST_FILE, LIST);
    let mut installer = host.installer();
    let mut now = Instant::now();
    let mut waits = Vec::new();
    installer.reconcile(now);
    for _ in 0..5 {
        host.write(LIST_FILE, LIST);
        let due = installer.reconcile(now).unwrap();
        assert_eq!(host.text(LIST_FILE), LIST);
        assert_eq!(installer.reporter.metrics.cni_installed.get(), 0);
        // Changes do not shorten the delay.
        assert_eq!(installer.reconcile(now), Some(due));
        waits.push((due - now).as_millis());
        now = due;
        assert_eq!(installer.reconcile(now), None);
        assert_eq!(installer.state, installed(LIST_FILE));
    }
    assert_eq!(waits, [200, 400, 800, 1600, 3200]);
    assert_eq!(installer.reporter.metrics.cni_reinstalled.get(), 5);
    host.write(LIST_FILE, LIST);
    assert_eq!(installer.reconcile(now + MINUTE), None, "it stood for long");
}

/// linkerd-cni removes and appends its own entry in every file that it has not written.
#[test]
fn order_is_left_to_a_plugin_that_keeps_appending_itself() {
    const OTHER: &str = "{\"type\":\"linkerd-cni\"}";
    let host = Host::with(LIST_FILE, LIST);
    let mut installer = host.installer();
    let mut now = Instant::now();
    let reorder = || {
        let mut list: Value = serde_json::from_str(&host.text(LIST_FILE)).unwrap();
        let plugins = list["plugins"].as_array_mut().unwrap();
        plugins.retain(|plugin| plugin["type"] != "linkerd-cni");
        plugins.push(serde_json::from_str(OTHER).unwrap());
        host.write(LIST_FILE, &list.to_string());
        host.text(LIST_FILE)
    };
    settle(&mut installer, now);
    let mut fight = |now: &mut Instant| {
        for moves in 0.. {
            let text = reorder();
            *now = settle(&mut installer, *now);
            assert_eq!(installer.state, installed(LIST_FILE));
            assert_eq!(installer.reporter.metrics.cni_installed.get(), 1);
            if host.text(LIST_FILE) == text {
                return moves;
            }
        }
        unreachable!()
    };
    assert_eq!(fight(&mut now), 3);
    assert_eq!(fight(&mut now), 0);
    now += 60 * MINUTE;
    assert_eq!(fight(&mut now), 3);
    assert_eq!(installer.reporter.metrics.cni_reinstalled.get(), 0);
    // An entry with old settings is no longer current, so it is replaced.
    let stale = host
        .text(LIST_FILE)
        .replace("usher-cni\"", "usher-cni\",\"old\":1");
    host.write(LIST_FILE, &stale);
    settle(&mut installer, now);
    assert!(!host.text(LIST_FILE).contains("\"old\""));
}

#[test]
fn configured_name_matches_either_extension() {
    for name in [CONF_FILE, LIST_FILE, "10-net.json"] {
        let host = Host::with("00-first.conflist", LIST);
        let (mut installer, _wanted) = host.installer_with(&["--cni-conf", name]);
        let now = Instant::now();
        assert_eq!(installer.reconcile(now), Some(now + MINUTE));
        assert!(matches!(installer.state, Some(State::Waiting { .. })));
        host.write(CONF_FILE, CONF);
        settle(&mut installer, Instant::now());
        assert_eq!(installer.state, installed(LIST_FILE));
        assert_eq!(host.text("00-first.conflist"), LIST);
    }
}

#[test]
fn unwanted_entry_is_removed_and_the_binary_stays() {
    let host = Host::with(LIST_FILE, LIST);
    host.write("20-old.conflist", &host.inserted(LIST, Kind::ConfList));
    let (mut installer, wanted) = host.installer_with(&[]);
    let mut now = settle(&mut installer, Instant::now());
    wanted.send_replace(false);
    now = settle(&mut installer, now);
    assert_eq!(installer.state, Some(State::Unwanted));
    assert_eq!(host.text(LIST_FILE), LIST);
    assert_eq!(host.text("20-old.conflist"), LIST);
    assert!(host.binary().is_some());
    assert_eq!(installer.reporter.metrics.cni_installed.get(), 0);
    wanted.send_replace(true);
    settle(&mut installer, now);
    assert_eq!(installer.state, installed(LIST_FILE));
    assert_eq!(installer.reporter.metrics.cni_reinstalled.get(), 0);
}

#[test]
fn uninstallation_leaves_nothing_and_may_be_repeated() {
    let host = Host::with(LIST_FILE, LIST);
    host.write(
        "20-ours.conflist",
        "{\"name\":\"n\",\"plugins\":[{\"type\":\"usher-cni\"}]}",
    );
    host.installer().reconcile(Instant::now());
    fs::write(host.bin_dir().join(".usher-cni.1.tmp"), "").unwrap();
    for _ in 0..2 {
        host.uninstall().unwrap();
        assert_eq!(host.text(LIST_FILE), LIST);
        assert_eq!(host.files().len(), 1);
        assert_eq!(files(&host.bin_dir()).len(), 2);
    }
}

#[test]
fn binary_stays_while_a_file_names_it() {
    let host = Host::with(LIST_FILE, LIST);
    host.installer().reconcile(Instant::now());
    let half = "{\"name\":\"m\",\"plugins\":[{\"type\":\"usher-cni\"";
    host.write("20-half.conflist", half);
    let error = host.uninstall().unwrap_err().to_string();
    assert!(error.contains("20-half.conflist"), "{error}");
    assert!(host.binary().is_some());
    assert_eq!(host.text(LIST_FILE), LIST);
}

#[test]
fn symbolic_links_of_directory_and_file() {
    let host = Host::new();
    fs::rename(host.conf_dir(), host.path("elsewhere")).unwrap();
    symlink("elsewhere", host.conf_dir()).unwrap();
    fs::write(host.path("origin"), LIST).unwrap();
    symlink("../origin", host.conf_dir().join(LIST_FILE)).unwrap();
    let mut installer = host.installer();
    assert_eq!(installer.reconcile(Instant::now()), None);
    assert_eq!(host.text(LIST_FILE), host.inserted(LIST, Kind::ConfList));
    assert_eq!(fs::read_to_string(host.path("origin")).unwrap(), LIST);
    assert!(host.conf_dir().is_symlink());
}

/// The whole service with its watch.
#[tokio::test(flavor = "current_thread")]
async fn reconciles_after_each_change() {
    let host = Host::new();
    fs::remove_dir(host.conf_dir()).unwrap();
    fs::remove_dir_all(host.bin_dir()).unwrap();
    fs::write(host.path(".usher-cni.7.tmp"), "").unwrap();
    let (installer, wanted) = host.installer_with(&[]);
    let metrics = std::sync::Arc::clone(&installer.reporter.metrics);
    let until = async |what: &str, is: &dyn Fn() -> bool| {
        let waiting = async {
            while !is() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let done = timeout(PATIENCE, waiting).await;
        assert!(done.is_ok(), "{what}: {:?}", host.files());
    };
    let has_entry = || {
        let text = fs::read_to_string(host.conf_dir().join(LIST_FILE));
        text.is_ok_and(|text| text.contains("usher-cni"))
    };
    LocalSet::new()
        .run_until(async {
            let service = tokio::task::spawn_local(installer.serve());
            fs::create_dir(host.conf_dir()).unwrap();
            host.create_bin_dir();
            host.write(LIST_FILE, LIST);
            until("appears later", &has_entry).await;
            host.write(LIST_FILE, LIST);
            until("comes back", &has_entry).await;
            fs::rename(host.conf_dir(), host.path("old")).unwrap();
            fs::create_dir(host.conf_dir()).unwrap();
            host.write(LIST_FILE, LIST);
            until("in the new directory", &has_entry).await;
            fs::remove_file(host.bin_dir().join("usher-cni")).unwrap();
            until("binary again", &|| host.binary().is_some()).await;
            fs::remove_file(host.conf_dir().join(LIST_FILE)).unwrap();
            until("reported", &|| metrics.cni_installed.get() == 0).await;
            host.write(LIST_FILE, LIST);
            until("in the new file", &has_entry).await;
            wanted.send_replace(false);
            until("unwanted", &|| host.text(LIST_FILE) == LIST).await;
            service.abort();
        })
        .await;
    assert!(host.files().len() == 1);
}
