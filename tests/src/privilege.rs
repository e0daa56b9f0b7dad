//! Whether this machine permits the privileged tests.
//!
//! A test that cannot run prints `SKIPPED` and the reason. With `CI=true` in the
//! environment it panics instead: a pipeline that tests nothing without a
//! notice is worse than a failed one.

use std::path::Path;

use crate::synthetic::layout;

/// Whether synthetic pods can be created here.
///
/// # Panics
///
/// If they cannot and `CI=true` is set.
pub fn granted() -> bool {
    granted_with(&[])
}

/// The same, with a check for these programs.
///
/// # Panics
///
/// If one is missing and `CI=true` is set.
pub fn granted_with(programs: &[&str]) -> bool {
    permitted(missing().or_else(|| absent(programs)))
}

/// The same, with a check for this device.
///
/// # Panics
///
/// If it is missing and `CI=true` is set.
pub fn granted_with_device(device: &str) -> bool {
    let absent = !Path::new(device).exists();
    permitted(missing().or_else(|| absent.then(|| format!("needs the device {device}"))))
}

fn permitted(obstacle: Option<String>) -> bool {
    let Some(reason) = obstacle else {
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
