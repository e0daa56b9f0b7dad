//! A route out of a pod, and rules in it, set by the usual programs.
//!
//! `ip` (iproute2) and `nft` (nftables); both read a script. The route leads to a
//! veth pair with both ends in the pod: packets that no rule redirects
//! get no response.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use usher_tests::synthetic::wire::Capture;

use crate::{BROKEN, say};

const WAY_OUT: &str = "\
link add e0 type veth peer name e1
link set e0 up
link set e1 up
addr add 10.7.0.2/24 dev e0
addr add fd07:1::2/64 dev e0 nodad
route add default via 10.7.0.1
route add default via fd07:1::1
";

/// Makes the interface and the default routes.
pub(crate) fn open() -> Result<(), String> {
    script("ip", &["-batch", "-"], WAY_OUT)
}

/// Runs a script of the `nft` program.
pub(crate) fn filter(text: &str) -> Result<(), String> {
    script("nft", &["-f", "-"], text)
}

/// The init container of a mesh.
pub(crate) fn capture(rules: &Capture) -> ExitCode {
    match filter(&rules.script()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&format!("failed {reason}"));
            ExitCode::from(BROKEN)
        }
    }
}

fn script(program: &str, arguments: &[&str], text: &str) -> Result<(), String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{program}: {reason}");
    let mut child = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        // A container has no /dev/null.
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let written = child
        .stdin
        .take()
        .map(|mut input| input.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if output.status.success() && matches!(written, Some(Ok(()))) {
        return Ok(());
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr).trim()))
}
