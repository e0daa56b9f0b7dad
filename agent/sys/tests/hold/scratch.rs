//! A network namespace for one test. It ends with the test's thread.

use std::{
    fs::File,
    io::Write,
    net::{Ipv4Addr, Ipv6Addr},
    panic::resume_unwind,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::Uid,
};
use usher_sys::net::netns::Netns;
use usher_tests::topology::{self, DeadEnd};

/// The namespace's own address. No host answers at any other address.
pub(crate) const ADDRESS: &str = "192.0.2.1";
const ADDRESS_V6: &str = "2001:db8::1";

/// An address without a host.
pub(crate) const ELSEWHERE: &str = "198.51.100.7";
/// An IPv6 address without a host.
pub(crate) const ELSEWHERE_V6: &str = "2001:db8:1::7";

/// Runs a test on a thread in a new namespace, with an event loop. Skips the test if that is impossible, or fails with
/// `CI=true`.
pub(crate) fn inside<F: Future<Output = ()>>(test: impl FnOnce(Netns) -> F + Send) {
    if !Uid::effective().is_root() {
        skipped("needs root (network namespaces)");
        return;
    }
    let body = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        topology::loopback_up().unwrap();
        let netns = File::open("/proc/thread-self/ns/net").unwrap();
        let netns = Netns::from_fd(netns.into()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(test(netns));
    };
    let ended = thread::scope(|scope| scope.spawn(body).join());
    ended.unwrap_or_else(|panic| resume_unwind(panic));
}

/// Routes all other addresses to an interface without hosts.
pub(crate) fn lead_nowhere() {
    let dead_end = DeadEnd {
        name: "pod0",
        peer: "nowhere",
        // No neighbour would answer ARP requests.
        arp: false,
        addresses: &[
            (ADDRESS.parse().unwrap(), 24),
            (ADDRESS_V6.parse().unwrap(), 64),
        ],
        gateways: &[Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
    };
    // On a separate thread, because this one runs the test's event loop.
    thread::scope(|scope| scope.spawn(|| dead_end.create().unwrap()).join().unwrap());
}

/// Waits for an effect of a closed descriptor. It may be delayed, because a child process of another test has a copy of
/// all descriptors until its exec.
///
/// # Panics
/// After a timeout.
pub(crate) async fn soon(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let long = Duration::from_secs(30);
    tokio::time::timeout(long, wait).await.unwrap();
}

/// Runs a program in the namespace, which must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// Passes valid rules to the program nft.
pub(crate) fn nft(rules: &str) {
    let mut nft = Command::new("nft");
    let mut nft = nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    nft.stdin
        .take()
        .unwrap()
        .write_all(rules.as_bytes())
        .unwrap();
    assert!(nft.wait().unwrap().success(), "{rules}");
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
