use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use usher_cluster::programs;

/// promtool, or None if the test is to be skipped; then the reason has been printed.
#[expect(clippy::print_stderr, reason = "a skip has to be seen")]
pub(crate) fn promtool() -> Option<PathBuf> {
    match programs::prometheus() {
        Ok(prometheus) => Some(prometheus.promtool),
        Err(error) => {
            let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!pipeline, "skipped in CI: {error:#}");
            eprintln!("SKIPPED: {error:#}");
            None
        }
    }
}

/// Runs it with these arguments and this standard input, at the root of the repository.
///
/// # Panics
///
/// If it reports an error.
pub(crate) fn passes(promtool: &Path, args: &[&str], input: &str) {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut child = Command::new(promtool)
        .args(args)
        .current_dir(top)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // If it reads no input and has exited, the write fails.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let done = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&done.stdout), text(&done.stderr));
    assert!(
        done.status.success(),
        "promtool {args:?}:\n{out}{error}\n{input}"
    );
}
