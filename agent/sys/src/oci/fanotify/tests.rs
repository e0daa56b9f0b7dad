use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use nix::unistd::Uid;
use usher_core::base::id::Pid;
use usher_tests::lease::lease;

use super::*;

/// The kernel delays other opens of a leased file for 45 s.
#[test]
fn open_of_a_leased_file_is_denied_without_a_delay() {
    if !Uid::effective().is_root() {
        let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!pipeline, "CI=true forbids to skip");
        eprintln!("SKIPPED: needs root (fanotify)");
        return;
    }
    for has_fd_errors in [true, false] {
        let group = match Group::with(Access::Open, has_fd_errors) {
            Err(Errno::EINVAL) if has_fd_errors => continue,
            opened => opened.unwrap(),
        };
        let dir = tempfile::tempdir().unwrap();
        let [leased, other] = ["leased", "other"].map(|name| dir.path().join(name));
        for file in [&leased, &other] {
            fs::write(file, "").unwrap();
        }
        let mut owner = lease(&leased);
        let directory = File::open(dir.path()).unwrap();
        group.mark(Mark::Directory, directory.as_fd()).unwrap();
        let cat = |file: &Path| Command::new("cat").arg(file).spawn().unwrap();
        let mut denied = cat(&leased);
        readable(&group);
        let read = group.read(|_open| panic!("the kernel cannot open this file"));
        let Err(Error::Denied { pid, source }) = read else {
            panic!("{read:?}")
        };
        let process = Pid(denied.id().try_into().unwrap());
        assert_eq!(pid, has_fd_errors.then_some(process));
        assert_eq!(source.raw_os_error(), Some(libc::EAGAIN));
        assert!(!denied.wait().unwrap().success());
        group.read(|_open| panic!("the queue is empty")).unwrap();
        // Other opens are unaffected.
        let mut allowed = cat(&other);
        readable(&group);
        group.read(|open| group.allow(open).unwrap()).unwrap();
        assert!(allowed.wait().unwrap().success());
        drop(owner.stdin.take());
        owner.wait().unwrap();
    }
}

fn readable(group: &Group) {
    let mut fds = [PollFd::new(group.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::from(30_000_u16);
    assert_eq!(poll(&mut fds, patience), Ok(1), "no open");
}
