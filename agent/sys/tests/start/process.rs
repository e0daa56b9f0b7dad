//! A process and its mounts. Here it is the test's own thread, which has its own mounts and executes no file on them,
//! like a runtime's process.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount},
    sys::stat::{fstat, stat},
    unistd::gettid,
};
use usher_core::base::id::Pid;
use usher_sys::{
    oci::{
        bundle::{started, visible, volumes},
        fanotify::{Group, Mark},
    },
    pods::{proc::ProcRoot, reads::LONG_MOUNTS},
};

use crate::scratch::{Starter, TRUE, all, bind, inside, overlay, readable, tmpfs};

/// Timeout, far longer than the kernel needs.
const PATIENCE: Duration = Duration::from_secs(30);

fn own() -> Pid {
    Pid(gettid().as_raw())
}

#[test]
fn program_on_own_mounts_or_not() {
    inside(|dir| {
        let proc = ProcRoot::new("/proc");
        let started = |pid| started(&proc, pid, LONG_MOUNTS);
        assert_eq!(started(own()).unwrap(), Some(false));
        let mut starter = Starter::executing(&dir.join("none"));
        // The parent may continue just before the child's exec.
        let end = Instant::now() + PATIENCE;
        while started(starter.pid()).unwrap() != Some(true) {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
        starter.go();
        assert!(!starter.succeeds());
        started(starter.pid()).unwrap_err();
    });
}

/// Whether one of the descriptors is the mount at a path.
fn has(all: &[OwnedFd], path: &Path) -> bool {
    let wanted = stat(path).unwrap();
    all.iter().any(|fd| {
        let found = fstat(fd).unwrap();
        (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
    })
}

#[test]
fn volumes_that_may_contain_programs() {
    inside(|dir| {
        let proc = ProcRoot::new("/proc");
        let [plain, noexec, below, covered] =
            ["plain", "no exec", "plain/below", "covered"].map(|name| dir.join(name));
        tmpfs(&plain, MsFlags::empty());
        tmpfs(&noexec, MsFlags::MS_NOEXEC);
        overlay(&dir.join("layers"), &below);
        tmpfs(&covered, MsFlags::empty());
        let hidden = fs::File::open(&covered).unwrap();
        tmpfs(&covered, MsFlags::empty());
        assert!(volumes(&proc, own(), 1).unwrap().is_none());
        let all = volumes(&proc, own(), LONG_MOUNTS).unwrap().unwrap();
        assert!(has(&all, &plain) && has(&all, &below) && has(&all, &covered));
        assert!(!has(&all, &noexec));
        let hidden = fstat(&hidden).unwrap();
        assert!(
            !all.iter()
                .any(|fd| fstat(fd).unwrap().st_dev == hidden.st_dev)
        );
        volumes(&proc, Pid(i32::MAX), LONG_MOUNTS).unwrap_err();
    });
}

#[test]
fn program_on_a_volume_waits() {
    inside(|dir| {
        let (root, volume) = (dir.join("root"), dir.join("volume"));
        overlay(dir, &root);
        fs::create_dir(&volume).unwrap();
        bind(&root, &volume);
        // Started before the marks, because the shell's own exec would wait for this thread.
        let mut starter = Starter::executing(&volume.join(TRUE));
        let group = Group::open().unwrap();
        let proc = ProcRoot::new("/proc");
        for fd in volumes(&proc, own(), LONG_MOUNTS).unwrap().unwrap() {
            // No other process uses these mounts, which are in the test's namespace.
            group.mark(Mark::Mount, fd.as_fd()).unwrap();
        }
        starter.go();
        readable(&group);
        let held = all(&group);
        assert_eq!(held[0].pid, starter.pid());
        drop(group);
        drop(held);
        assert!(starter.succeeds());
    });
}

#[test]
fn visible_mounts() {
    inside(|dir| {
        let run = dir.join("run");
        tmpfs(&run, MsFlags::empty());
        let tasks = run.join("not/there/yet");
        let why = visible(&tasks).unwrap_err();
        assert!(why.contains("HostToContainer"), "{why}");
        let none: Option<&str> = None;
        mount(none, &run, none, MsFlags::MS_SHARED, none).unwrap();
        assert_eq!(visible(&tasks), Ok(()));
        // A slave mount.
        let copy = dir.join("copy");
        fs::create_dir(&copy).unwrap();
        bind(&run, &copy);
        mount(none, &copy, none, MsFlags::MS_SLAVE, none).unwrap();
        assert_eq!(visible(&copy), Ok(()));
        mount(none, &copy, none, MsFlags::MS_PRIVATE, none).unwrap();
        visible(&copy).unwrap_err();
    });
}
