//! Chains of rules that cost far more to evaluate than to load.
//!
//! Each chain jumps to the next one several times, so the last one is evaluated `JUMPS` to the power of the depth times for
//! each packet. The kernel limits the depth of jumps (16,
//! [`NFT_JUMP_STACK_SIZE`](https://github.com/torvalds/linux/blob/v6.12/include/net/netfilter/nf_tables.h#L39)), and
//! not their product.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const JUMPS: usize = 4;
/// A handshake over loopback takes seconds with the first depth, and one second with the other one.
/// More cannot be stopped in an acceptable time, and could stall the machine.
pub const DEEP: u32 = 13;
pub const LESS_DEEP: u32 = 12;

/// Such rules in network namespaces, removed on drop.
#[derive(Debug)]
pub struct CostlyRules {
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    remover: Option<JoinHandle<()>>,
}

impl CostlyRules {
    /// Loads them into these namespaces, for these packets in the syntax of `nft`, or for all. They are removed after the
    /// limit, whatever the caller does.
    ///
    /// # Panics
    ///
    /// If `nft` fails.
    pub fn load(namespaces: &[PathBuf], packets: &str, depth: u32, limit: Duration) -> Self {
        let (end, ended) = channel();
        // Before the rules: they must not outlive a panic.
        let remover = remover(namespaces.to_owned(), ended, limit);
        let rules = Self {
            end: Some(end),
            remover: Some(remover),
        };
        let script = script(packets, depth);
        for namespace in namespaces {
            nft(namespace, &script);
        }
        rules
    }
}

impl Drop for CostlyRules {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(remover) = self.remover.take() {
            drop(remover.join());
        }
    }
}

fn remover(namespaces: Vec<PathBuf>, ended: Receiver<()>, limit: Duration) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let waited = ended.recv_timeout(limit);
        debug_assert_ne!(waited, Ok(()));
        if waited == Err(RecvTimeoutError::Timeout) || waited == Err(RecvTimeoutError::Disconnected)
        {
            for namespace in &namespaces {
                nft(namespace, "table inet costly\ndelete table inet costly\n");
            }
        }
    })
}

fn script(packets: &str, depth: u32) -> String {
    let mut script = format!("table inet costly {{\n chain chain-{depth} {{ }}\n");
    for level in (0..depth).rev() {
        let jump = format!("  jump chain-{}\n", level + 1).repeat(JUMPS);
        writeln!(script, " chain chain-{level} {{\n{jump} }}").expect("a String accepts text");
    }
    // After the table of usher, which drops the packets that it holds.
    let hook = "type filter hook output priority 10; policy accept;";
    writeln!(
        script,
        " chain output {{ {hook} {packets} jump chain-0; }}\n}}"
    )
    .expect("a String accepts text");
    script
}

fn nft(namespace: &std::path::Path, script: &str) {
    let mut nft = Command::new("nsenter")
        .arg(format!("--net={}", namespace.display()))
        .args(["nft", "-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("nsenter runs");
    let stdin = nft.stdin.take();
    let written = stdin.expect("piped above").write_all(script.as_bytes());
    let status = nft.wait().expect("a child that was not waited for");
    assert!(status.success() && written.is_ok(), "nft: {status}");
}
