//! Execs that wait for permission.

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use usher_sys::oci::fanotify::{Error, Group, Mark};

use crate::{
    alone,
    scratch::{
        Starter, TRUE, all, bind, inside, next, overlay, place, readable, unmount,
        unreadable_overlay,
    },
};

/// A marked overlay.
fn marked(dir: &Path) -> (Group, OwnedFd) {
    let root = dir.join("root");
    overlay(dir, &root);
    let group = Group::open().unwrap();
    let root = place(&root);
    group.mark(Mark::FileSystem, root.as_fd()).unwrap();
    (group, root)
}

#[test]
fn exec_waits_in_another_mount_namespace() {
    inside(|dir| {
        let (group, root) = marked(dir);
        let (seen, elsewhere) = (dir.join("root"), dir.join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        let inner = format!(
            "mount --bind {} {place} && exec {place}/{TRUE}",
            seen.display(),
            place = elsewhere.display()
        );
        let mut starter = Starter::of(&format!("exec unshare --mount sh -c '{inner}'"));
        // An open descriptor would prevent the unmount.
        drop(root);
        starter.go();
        let exec = next(&group);
        assert_eq!(exec.pid, starter.pid());
        assert!(starter.program().ends_with("sh") || starter.program().ends_with("dash"));
        assert!(starter.0.try_wait().unwrap().is_none());
        group.allow(exec).unwrap();
        assert!(starter.succeeds());
        drop(starter);
        unmount(&seen);
    });
}

#[test]
fn mark_of_a_mount_covers_that_mount_only() {
    inside(|dir| {
        let root = dir.join("root");
        overlay(dir, &root);
        let volume = dir.join("volume");
        fs::create_dir(&volume).unwrap();
        bind(&root, &volume);
        let group = Group::open().unwrap();
        group.mark(Mark::Mount, place(&volume).as_fd()).unwrap();
        let mut other = Starter::executing(&root.join(TRUE));
        other.go();
        assert!(other.succeeds());
        assert!(all(&group).is_empty());
        let mut starter = Starter::executing(&volume.join(TRUE));
        starter.go();
        group.allow(next(&group)).unwrap();
        assert!(starter.succeeds());
    });
}

#[test]
fn waiting_exec_keeps_waiting_without_the_mark() {
    type TakeBack = fn(&Group, BorrowedFd<'_>);
    let ways: [TakeBack; 2] = [
        |group, root| group.unmark(Mark::FileSystem, root).unwrap(),
        |group, _root| group.unmark_all().unwrap(),
    ];
    for take_back in ways {
        inside(|dir| {
            let (group, root) = marked(dir);
            let program = dir.join("root").join(TRUE);
            let mut starter = Starter::executing(&program);
            starter.go();
            let exec = next(&group);
            for _ in 0..2 {
                take_back(&group, root.as_fd());
            }
            let mut after = Starter::executing(&program);
            after.go();
            assert!(after.succeeds());
            assert!(all(&group).is_empty());
            assert!(starter.0.try_wait().unwrap().is_none());
            group.allow(exec).unwrap();
            assert!(starter.succeeds());
        });
    }
}

#[test]
fn dropped_exec_continues() {
    inside(|dir| {
        let (group, _root) = marked(dir);
        let program = dir.join("root").join(TRUE);
        let mut one = Starter::executing(&program);
        one.go();
        drop(next(&group));
        assert!(one.succeeds());
        // Closing the group allows both read and unread events.
        let mut two = [Starter::executing(&program), Starter::executing(&program)];
        two[0].go();
        let exec = next(&group);
        two[1].go();
        readable(&group);
        drop(group);
        drop(exec);
        assert!(two.iter_mut().all(Starter::succeeds));
    });
}

#[test]
fn process_killed_while_it_waits() {
    inside(|dir| {
        let (group, _root) = marked(dir);
        let mut starter = Starter::executing(&dir.join("root").join(TRUE));
        starter.go();
        let exec = next(&group);
        starter.0.kill().unwrap();
        assert!(!starter.succeeds());
        group.allow(exec).unwrap();
    });
}

#[test]
fn all_waiting_execs_are_read() {
    inside(|dir| {
        let (group, _root) = marked(dir);
        let program = dir.join("root").join(TRUE);
        let mut starters: Vec<_> = (0..20).map(|_| Starter::executing(&program)).collect();
        starters.iter_mut().for_each(Starter::go);
        let mut waiting = Vec::new();
        while waiting.len() < starters.len() {
            readable(&group);
            waiting.extend(all(&group));
        }
        // Responds in another order than that of the events.
        for exec in waiting.into_iter().rev() {
            let starter = starters.iter_mut().find(|one| one.pid() == exec.pid);
            group.allow(exec).unwrap();
            assert!(starter.unwrap().succeeds());
        }
    });
}

/// Runs a function while no descriptor can be opened.
fn without_descriptors<T>(done: impl FnOnce() -> T) -> T {
    let limits = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 0, limits.1).unwrap();
    let result = done();
    setrlimit(Resource::RLIMIT_NOFILE, limits.0, limits.1).unwrap();
    result
}

#[test]
fn exec_that_the_kernel_denied_is_reported() {
    if !alone::is_alone() {
        let ended = alone::run("fanotify::exec_that_the_kernel_denied_is_reported");
        assert!(ended.success(), "{ended}");
        return;
    }
    inside(|dir| {
        let (group, _root) = marked(dir);
        let program = dir.join("root").join(TRUE);
        let mut denied = [Starter::executing(&program), Starter::executing(&program)];
        for starter in &mut denied {
            starter.go();
            readable(&group);
            let mut taken = 0;
            let read = without_descriptors(|| group.read(|_exec| taken += 1));
            let Err(Error::Denied { pid, source }) = read else {
                panic!("{read:?}")
            };
            // None before Linux 6.13.
            assert!(pid.is_none_or(|pid| pid == starter.pid()));
            assert_eq!(source.raw_os_error(), Some(libc::EMFILE));
            assert_eq!(taken, 0);
            // The shell's exit code for a program that it has no permission to execute.
            assert_eq!(starter.0.wait().unwrap().code(), Some(126));
        }
        // The next exec succeeds.
        let mut starter = Starter::executing(&program);
        starter.go();
        group.allow(next(&group)).unwrap();
        assert!(starter.succeeds());
    });
}

#[test]
fn exec_that_the_file_system_denies_leaves_the_group_intact() {
    inside(|dir| {
        let [good, bad] = ["good", "bad"].map(|name| dir.join(name));
        fs::create_dir(&good).unwrap();
        let (group, _root) = marked(&good);
        let root = unreadable_overlay(&bad);
        group.mark(Mark::FileSystem, place(&root).as_fd()).unwrap();
        for _ in 0..3 {
            let mut denied = Starter::executing(&root.join(TRUE));
            denied.go();
            readable(&group);
            let read = group.read(|_exec| panic!("the kernel cannot open this program"));
            let Err(Error::Denied { pid, source }) = read else {
                panic!("{read:?}")
            };
            assert!(pid.is_none_or(|pid| pid == denied.pid()));
            assert_eq!(source.raw_os_error(), Some(libc::EACCES));
            assert_eq!(denied.0.wait().unwrap().code(), Some(126));
            // Other file systems are unaffected.
            let mut starter = Starter::executing(&good.join("root").join(TRUE));
            starter.go();
            group.allow(next(&group)).unwrap();
            assert!(starter.succeeds());
        }
    });
}
