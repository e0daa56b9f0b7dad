//! Whether this machine lets the privileged tests run.
//!
//! A test that cannot run says `SKIPPED` and why. With `CI=true` in the
//! environment it panics instead: a pipeline that silently tests nothing is
//! worse than a red one.

use std::path::Path;

use crate::synthetic::layout;

/// True when synthetic pods can be made here.
///
/// # Panics
///
/// When they cannot and `CI=true` is set.
pub fn granted() -> bool {
    granted_with(&[])
}

/// The same where these programs are there, too.
///
/// # Panics
///
/// When they are not and `CI=true` is set.
pub fn granted_with(programs: &[&str]) -> bool {
    let Some(reason) = missing().or_else(|| absent(programs)) else {
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

fn absent(programs: &[&str]) -> Option<String> {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(Path::new);
    let is_absent = |program: &&&str| !places.iter().any(|place| place.join(program).exists());
    let program = programs.iter().find(is_absent)?;
    Some(format!("needs the program {program}"))
}

#[expect(
    clippy::print_stderr,
    reason = "libtest has no skipped state; this line is how a person learns of it"
)]
fn skipped(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}
