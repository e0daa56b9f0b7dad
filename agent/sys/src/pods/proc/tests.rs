use std::{
    ffi::OsStr,
    io::Write,
    os::unix::ffi::OsStrExt,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{ForkResult, chroot, fork, gettid, pause},
};

use super::super::proc::*;

#[test]
fn process_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let proc = ProcRoot::new("/proc");
    for name in [&b"\xff)\xfe"[..], b"a) (b", b"((", b")\n\\ S 1"] {
        let program = folder.path().join(OsStr::from_bytes(name));
        fs::copy("/bin/cat", &program).unwrap();
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Output proves that its execve has completed.
        child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        let read = child.stdout.as_mut().unwrap().read_exact(&mut [0]);
        read.unwrap();
        let pid = Pid(child.id() as i32);
        let candidate = proc.candidate(pid);
        let variable = proc.variable(pid, "PATH");
        drop(child.stdin.take());
        child.wait().unwrap();
        let candidate = candidate.unwrap().expect("it runs");
        assert!(candidate.start_ticks > 0, "{name:?}");
        assert_eq!(candidate.nspid.last(), Some(&pid.0), "{name:?}");
        assert!(variable.unwrap().is_some(), "{name:?}");
    }
}

#[test]
#[expect(unsafe_code, reason = "fork")]
fn process_has_executed_or_was_only_forked() {
    let proc = ProcRoot::new("/proc");
    let own = Pid(nix::unistd::getpid().as_raw());
    assert_eq!(proc.has_executed(own).unwrap(), Some(true));
    // SAFETY: the child only makes system calls, and does not return into this program.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Child => loop {
            pause();
        },
        ForkResult::Parent { child } => child,
    };
    let pid = Pid(child.as_raw());
    let forked = proc.has_executed(pid);
    kill(child, Signal::SIGKILL).unwrap();
    let how = |flags| waitid(Id::Pid(child), WaitPidFlag::WEXITED | flags);
    how(WaitPidFlag::WNOWAIT).unwrap();
    let zombie = proc.has_executed(pid);
    how(WaitPidFlag::empty()).unwrap();
    assert_eq!(forked.unwrap(), Some(false));
    assert_eq!(zombie.unwrap(), Some(false));
    assert_eq!(proc.has_executed(pid).unwrap(), None);
}

/// All mounts, and the own mounts, of a thread in its own mount namespace. Another file system is mounted at `root`,
/// unless `root` is the host's.
fn mounts_of_thread(root: &Path) -> [Option<String>; 2] {
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let (sender, tid) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
            if root != Path::new("/") {
                mount(
                    Some("own"),
                    root,
                    Some("tmpfs"),
                    MsFlags::empty(),
                    None::<&str>,
                )
                .unwrap();
            }
            chroot(root).unwrap();
            sender.send(gettid()).unwrap();
            ended.recv().unwrap_err();
        });
        let proc = ProcRoot::new("/proc");
        let pid = Pid(tid.recv().unwrap().as_raw());
        let mounts = [proc.mountinfo(pid), proc.own_mountinfo(pid, usize::MAX)];
        drop(end);
        mounts.map(Result::unwrap)
    })
}

#[test]
fn own_mounts_are_read_only_below_a_root_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let [all, own] = mounts_of_thread(Path::new("/"));
    assert!(all.is_some_and(|mounts| !mounts.is_empty()));
    assert_eq!(own.as_deref(), Some(""));
    let [all, own] = mounts_of_thread(folder.path());
    assert!(
        all.as_ref()
            .is_some_and(|mounts| mounts.contains("tmpfs own"))
    );
    assert_eq!(all, own);
    let absent = ProcRoot::new("/proc").own_mountinfo(Pid(i32::MAX), 1);
    assert_eq!(absent.unwrap(), None);
}

#[test]
fn text_in_another_format_is_an_error() {
    let fields = "S 1".to_owned() + &" 1".repeat(50);
    assert!(text::stat(format!("7 (a) {fields}").as_bytes()).is_ok());
    for stat in [
        "",
        "7",
        "(a) S 1",
        "7 (a)",
        "7 (a) ",
        "7 )a( S",
        "7(a) S 1",
        "x (a) S 1",
        "7 (a)S 1",
    ] {
        assert!(text::stat(stat.as_bytes()).is_err(), "{stat:?}");
    }
    assert!(text::candidate(Pid(7), b"Name:\ta\n", b"7 (a) S 1").is_err());
}
