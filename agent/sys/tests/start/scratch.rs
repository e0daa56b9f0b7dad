//! A mount namespace for one test, with an overlay file system like a container's. It ends with the test's thread.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::Write,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{OpenOptionsExt, PermissionsExt, chown},
    },
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    mount::{MntFlags, MsFlags, mount, umount2},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, unshare},
    unistd::Uid,
};
use usher_core::base::id::Pid;
use usher_sys::oci::fanotify::{Group, Waiting};

/// A program that does nothing and succeeds.
pub(crate) const TRUE: &str = "bin/true";

/// Runs a test on a thread in a new mount namespace, in a directory with a tmpfs. Skips the test if that is impossible,
/// or fails with `CI=true`.
pub(crate) fn inside(test: impl FnOnce(&Path) + Send) {
    if !Uid::effective().is_root() {
        skipped("needs root (mount namespaces, fanotify)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let body = || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none: Option<&str> = None;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).unwrap();
        tmpfs(dir.path(), MsFlags::empty());
        test(dir.path());
    };
    let ended = thread::scope(|scope| scope.spawn(body).join());
    ended.unwrap_or_else(|panic| resume_unwind(panic));
}

/// Like [`inside`], on an event loop.
pub(crate) fn inside_loop<F: Future<Output = ()>>(test: impl FnOnce(PathBuf) -> F + Send) {
    inside(|dir| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(test(dir.to_owned()));
    });
}

/// Mounts an empty file system.
pub(crate) fn tmpfs(at: &Path, flags: MsFlags) {
    fs::create_dir_all(at).unwrap();
    let none: Option<&str> = None;
    mount(Some("test"), at, Some("tmpfs"), flags, none).unwrap();
}

/// Mounts an overlay with [`TRUE`] and a shell in it.
pub(crate) fn overlay(dir: &Path, at: &Path) {
    let layers = ["lower", "upper", "work"].map(|layer| dir.join(layer));
    for layer in &layers {
        fs::create_dir_all(layer).unwrap();
    }
    let [lower, upper, work] = layers;
    fs::create_dir_all(lower.join("bin")).unwrap();
    for program in ["true", "sh"] {
        fs::copy(
            Path::new("/bin").join(program),
            lower.join("bin").join(program),
        )
        .unwrap();
    }
    fs::create_dir_all(at).unwrap();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let kind = Some("overlay");
    mount(kind, at, kind, MsFlags::empty(), Some(&*options)).unwrap();
}

/// Mounts an overlay with [`TRUE`], which its mounter may execute but not read: the file belongs to another user, and
/// the mounter lacks the capabilities that let root read all files. Returns the overlay's root.
pub(crate) fn unreadable_overlay(dir: &Path) -> PathBuf {
    let [lower, empty, root] = ["lower", "empty", "root"].map(|layer| dir.join(layer));
    for layer in [&lower.join("bin"), &empty, &root] {
        fs::create_dir_all(layer).unwrap();
    }
    let program = lower.join(TRUE);
    fs::copy("/bin/true", &program).unwrap();
    chown(&program, Some(70_000), Some(70_000)).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o711)).unwrap();
    let layers = format!("lowerdir={}:{}", lower.display(), empty.display());
    let mounted = Command::new("setpriv")
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .args(["mount", "-t", "overlay", "overlay", "-o", &layers])
        .arg(&root)
        .status();
    assert!(mounted.unwrap().success());
    root
}

/// Bind mounts a directory.
pub(crate) fn bind(from: &Path, to: &Path) {
    let none: Option<&str> = None;
    mount(Some(from), to, none, MsFlags::MS_BIND, none).unwrap();
}

/// Unmounts a file system. It may be busy for a moment, because a child process of another test has a copy of all
/// descriptors until its exec.
pub(crate) fn unmount(path: &Path) {
    let begin = Instant::now();
    while let Err(errno) = umount2(path, MntFlags::empty()) {
        let may_pass = errno == Errno::EBUSY && begin.elapsed() < Duration::from_secs(30);
        assert!(may_pass, "{path:?}: {errno}");
        thread::yield_now();
    }
}

/// Opens a path with `O_PATH`, as the agent does.
pub(crate) fn place(path: &Path) -> OwnedFd {
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(OFlag::O_PATH.bits());
    options.open(path).unwrap().into()
}

/// A process that executes a program on request. It is killed on drop.
pub(crate) struct Starter(pub(crate) Child);

impl Starter {
    /// The machine's shell runs the script, which must end with `exec`.
    pub(crate) fn of(script: &str) -> Self {
        let mut shell = Command::new("/bin/sh");
        let shell = shell.args(["-c", &format!("read go; {script}")]);
        Self(shell.stdin(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn executing(program: &Path) -> Self {
        Self::of(&format!("exec {}", program.display()))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.0.id().try_into().unwrap())
    }

    pub(crate) fn go(&mut self) {
        let mut stdin = self.0.stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    /// Whether the program succeeded. Waits for its end.
    pub(crate) fn succeeds(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }

    /// The program that the process currently executes.
    pub(crate) fn program(&self) -> PathBuf {
        fs::read_link(format!("/proc/{}/exe", self.pid())).unwrap()
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        // Both calls fail if the process has exited.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits until an event is available.
pub(crate) fn readable(group: &Group) {
    let mut fds = [PollFd::new(group.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::from(30_000_u16);
    assert_eq!(poll(&mut fds, patience), Ok(1), "no exec");
}

/// The next waiting exec.
pub(crate) fn next(group: &Group) -> Waiting {
    readable(group);
    let mut all = all(group);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// All waiting execs.
pub(crate) fn all(group: &Group) -> Vec<Waiting> {
    let mut all = Vec::new();
    group.read(|exec| all.push(exec)).unwrap();
    all
}

/// Reports a skipped test; with `CI=true` that is a failure.
#[expect(
    clippy::print_stderr,
    reason = "libtest has no skipped state; this line is how a person learns of it"
)]
pub(crate) fn skipped(why: &str) {
    let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(
        !pipeline,
        "cannot run here, and CI=true forbids to skip: {why}"
    );
    eprintln!("SKIPPED: {why}");
}
