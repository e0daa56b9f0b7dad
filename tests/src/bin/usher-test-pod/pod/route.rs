//! A route out of a pod, and rules in its network namespace.
//!
//! The route leads to a veth pair with both ends in the pod: packets that no rule redirects get no response. The rules
//! are scripts of the `nft` program (nftables).

use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    process::{Command, ExitCode, Stdio},
};

use usher_tests::{synthetic::wire::Capture, topology::DeadEnd};

use crate::{BROKEN, say};

const WAY_OUT: DeadEnd<'_> = DeadEnd {
    name: "e0",
    peer: "e1",
    arp: true,
    addresses: &[
        (IpAddr::V4(Ipv4Addr::new(10, 7, 0, 2)), 24),
        (IpAddr::V6(Ipv6Addr::new(0xfd07, 1, 0, 0, 0, 0, 0, 2)), 64),
    ],
    gateways: &[
        IpAddr::V4(Ipv4Addr::new(10, 7, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0xfd07, 1, 0, 0, 0, 0, 0, 1)),
    ],
};

/// Creates the interface and the default routes.
pub(crate) fn open() -> Result<(), String> {
    WAY_OUT.create().map_err(|error| error.to_string())
}

/// Runs a script of the `nft` program.
pub(crate) fn filter(text: &str) -> Result<(), String> {
    let failed = |reason: &dyn std::fmt::Display| format!("nft: {reason}");
    let mut child = Command::new("nft")
        .args(["-f", "-"])
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
