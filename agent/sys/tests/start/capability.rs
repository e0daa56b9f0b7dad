//! The capabilities that remain after a drop.

use std::{
    fs,
    os::{
        fd::AsFd,
        unix::fs::{PermissionsExt, chown},
    },
    process::Command,
};

use nix::{mount::MsFlags, unistd::Uid};
use usher_sys::{
    oci::fanotify::{Error, Group, Mark},
    process::capability::{Capability, keep_only},
};

use crate::{
    alone,
    scratch::{Starter, TRUE, inside, next, overlay, place, skipped, tmpfs},
};

/// `CAP_SYS_ADMIN` in the notation of /proc.
const SYS_ADMIN: u64 = 1 << 21;

fn set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    u64::from_str_radix(line.unwrap().trim_start_matches(':').trim(), 16).unwrap()
}

#[test]
fn dropped_capabilities_stay_dropped() {
    if !Uid::effective().is_root() {
        skipped("needs capabilities to give up");
        return;
    }
    if !alone::is_alone() {
        let ended = alone::run("capability::dropped_capabilities_stay_dropped");
        assert!(ended.success(), "{ended}");
        return;
    }
    keep_only(&[Capability::CAP_SYS_ADMIN]).unwrap();
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
    // The capability suffices for a group. A repeated drop has no effect.
    drop(Group::open().unwrap());
    keep_only(&[Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_PTRACE]).unwrap();
    let child = Command::new("cat").arg("/proc/self/status").output();
    let child = String::from_utf8(child.unwrap().stdout).unwrap();
    assert_eq!(set(&child, "CapPrm"), SYS_ADMIN);
    keep_only(&[]).unwrap();
    assert!(matches!(Group::open(), Err(Error::Permission(_))));
}

#[test]
fn one_capability_suffices_for_execute_only_programs() {
    if !alone::is_alone() {
        let test = "capability::one_capability_suffices_for_execute_only_programs";
        let ended = alone::run(test);
        assert!(ended.success(), "{ended}");
        return;
    }
    inside(|dir| {
        let (root, volume, closed) = (dir.join("root"), dir.join("volume"), dir.join("closed"));
        overlay(dir, &root);
        tmpfs(&volume, MsFlags::empty());
        fs::copy(root.join(TRUE), volume.join("true")).unwrap();
        let programs = [root.join(TRUE), volume.join("true")];
        fs::create_dir(&closed).unwrap();
        for (path, mode) in [
            (&programs[0], 0o111),
            (&programs[1], 0o111),
            (&closed, 0o700),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            chown(path, Some(1000), Some(1000)).unwrap();
        }
        keep_only(&[Capability::CAP_SYS_ADMIN]).unwrap();
        fs::read(&programs[0]).unwrap_err();
        let group = Group::open().unwrap();
        group.mark(Mark::FileSystem, place(&root).as_fd()).unwrap();
        group.mark(Mark::Mount, place(&volume).as_fd()).unwrap();
        for program in &programs {
            let mut starter = Starter::executing(program);
            starter.go();
            group.allow(next(&group)).unwrap();
            assert!(starter.succeeds());
        }
        // An unreadable file cannot be marked.
        let refused = group.mark(Mark::FileSystem, place(&closed).as_fd());
        let Err(Error::Call { source, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(source.raw_os_error(), Some(libc::EACCES));
    });
}
