//! Whether this machine lets the privileged tests run.
//!
//! A test that cannot run says `SKIPPED` and why. With `CI=true` in the
//! environment it panics instead: a pipeline that silently tests nothing is
//! worse than a red one.

use crate::synthetic::layout;

/// True when synthetic pods can be made here.
///
/// # Panics
///
/// When they cannot and `CI=true` is set.
pub fn granted() -> bool {
    let Some(reason) = missing() else {
        return true;
    };
    let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(
        !pipeline,
        "cannot run here, and CI=true forbids to skip: {reason}"
    );
    skipped(&reason);
    false
}

fn missing() -> Option<String> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some("needs root (namespaces, mounts and cgroups)".to_owned());
    }
    if layout::cgroup2_mount().is_none() {
        return Some("no cgroup2 file system is mounted".to_owned());
    }
    None
}

#[expect(
    clippy::print_stderr,
    reason = "libtest has no skipped state; this line is how a person learns of it"
)]
fn skipped(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}
