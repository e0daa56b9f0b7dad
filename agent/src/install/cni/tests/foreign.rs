//! Configurations of other programs: links that lead out of the container, and copies of the entry.

use std::{fs, os::unix::fs::symlink, time::Instant};

use super::host::*;
use crate::install::cni::State;

/// A runtime on the host may follow a link that leads nowhere in the agent's container.
#[test]
fn link_that_cannot_be_followed_is_reported_unless_it_sorts_after_the_network() {
    let host = Host::with(LIST_FILE, LIST);
    symlink(
        "/nonexistent/own.conflist",
        host.conf_dir().join("20-own.conflist"),
    )
    .unwrap();
    let mut installer = host.installer();
    let now = settle(&mut installer, Instant::now());
    assert_eq!(installer.state, installed(LIST_FILE));
    host.uninstall().unwrap();
    assert_eq!(host.text(LIST_FILE), LIST);

    let first = host.conf_dir().join("05-own.conflist");
    symlink("/nonexistent/own.conflist", &first).unwrap();
    assert!(installer.reconcile(now + MINUTE).is_some());
    assert_eq!(host.text(LIST_FILE), LIST);
    let reported = error(&installer);
    for part in [
        "05-own.conflist",
        "/nonexistent/own.conflist",
        "replace the link",
    ] {
        assert!(reported.contains(part), "{reported}");
    }
    // Another configuration was chosen.
    let (mut chosen, _wanted) = host.installer_with(&["--cni-conf=10-net.conflist"]);
    settle(&mut chosen, now + MINUTE);
    assert_eq!(chosen.state, installed(LIST_FILE));
    host.uninstall().unwrap();

    fs::remove_file(&first).unwrap();
    settle(&mut installer, now + 2 * MINUTE);
    assert_eq!(installer.state, installed(LIST_FILE));
}

/// The binary stays in this mode, so a copy of the entry in another plugin's configuration is no failure.
#[test]
fn copy_in_another_plugin_does_not_block_the_mode() {
    let host = Host::with(LIST_FILE, LIST);
    let (mut installer, wanted) = host.installer_with(&["--cni-conf=10-net.conflist"]);
    let now = settle(&mut installer, Instant::now());
    let multus = format!(
        "{{\"type\":\"multus\",\"delegates\":[{}]}}",
        host.text(LIST_FILE)
    );
    host.write("00-multus.conf", &multus);
    wanted.send_replace(false);
    settle(&mut installer, now + MINUTE);
    assert_eq!(installer.state, Some(State::Unwanted));
    assert_eq!(host.text(LIST_FILE), LIST);
    assert_eq!(host.text("00-multus.conf"), multus);
    host.assert_callable();
    assert!(host.uninstall().unwrap_err().contains("00-multus.conf"));
    host.assert_callable();
}
