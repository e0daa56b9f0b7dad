//! A node for one test: a directory for the socket and the log, and a network namespace.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process, thread,
};

use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

/// The test's files and namespace.
pub(crate) struct Place {
    dir: TempDir,
    netns: File,
}

impl Place {
    /// None if this process may not create a namespace; with `CI=true` that is a failure.
    #[expect(clippy::print_stderr, reason = "libtest has no skipped state")]
    pub(crate) fn new() -> Option<Self> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok::<_, nix::Error>(File::open("/proc/thread-self/ns/net").unwrap())
        });
        let netns = match made.join().unwrap() {
            Ok(netns) => netns,
            Err(errno) => {
                let is_pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
                assert!(
                    !is_pipeline,
                    "no namespace, and CI=true forbids to skip: {errno}"
                );
                eprintln!("SKIPPED: making a network namespace: {errno}");
                return None;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        Some(Self { dir, netns })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("cni.sock")
    }

    /// A path of the namespace.
    pub(crate) fn netns(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", process::id(), self.netns.as_raw_fd()).into()
    }

    /// Device and inode number of the namespace.
    pub(crate) fn netns_id(&self) -> (u64, u64) {
        let metadata = self.netns.metadata().unwrap();
        (metadata.dev(), metadata.ino())
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    /// The lines of the log.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("cni.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A configuration for this node, followed by the members in `more`.
    pub(crate) fn conf(&self, more: &str) -> String {
        format!(
            "{{\"type\":\"usher-cni\",\"name\":\"n\",\"socket\":\"{}\",\"logFile\":\"{}\",{more}}}",
            self.socket().display(),
            self.dir.path().join("cni.log").display()
        )
    }
}
