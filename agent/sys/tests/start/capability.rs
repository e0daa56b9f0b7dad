//! What is left after all else was given up.

use std::{fs, process::Command};

use nix::unistd::Uid;
use usher_sys::{
    capability::{Needed, keep_only},
    fanotify::{Error, Group},
};

use crate::{alone, scratch::skipped};

/// `CAP_SYS_ADMIN` as /proc writes it.
const SYS_ADMIN: u64 = 1 << 21;

fn set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    u64::from_str_radix(line.unwrap().trim_start_matches(':').trim(), 16).unwrap()
}

#[test]
fn one_is_kept_and_nothing_comes_back() {
    if !Uid::effective().is_root() {
        skipped("needs capabilities to give up");
        return;
    }
    if !alone::is_alone() {
        let ended = alone::run("capability::one_is_kept_and_nothing_comes_back");
        assert!(ended.success(), "{ended}");
        return;
    }
    keep_only(&[Needed::SysAdmin]).unwrap();
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    for (name, expected) in [
        ("CapInh", 0),
        ("CapPrm", SYS_ADMIN),
        ("CapEff", SYS_ADMIN),
        ("CapBnd", SYS_ADMIN),
        ("CapAmb", 0),
        ("NoNewPrivs", 1),
    ] {
        assert_eq!(set(&status, name), expected, "{name}");
    }
    // It is enough for a group, and twice is no more.
    drop(Group::open().unwrap());
    keep_only(&[Needed::SysAdmin, Needed::SysPtrace]).unwrap();
    let child = Command::new("cat").arg("/proc/self/status").output();
    let child = String::from_utf8(child.unwrap().stdout).unwrap();
    assert_eq!(set(&child, "CapPrm"), SYS_ADMIN);
    keep_only(&[]).unwrap();
    assert!(matches!(Group::open(), Err(Error::Permission(_))));
}
