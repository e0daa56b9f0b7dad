//! Sequential program starts: the cost of an exec.

use std::{
    env,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

/// Runs this program this number of times, each time until its exit, and prints `app-spawned n=N us=N`.
pub(crate) fn again_and_again(times: u32) -> Result<()> {
    let program = env::current_exe().context("find this program")?;
    let mut command = Command::new(&program);
    command
        .args(["--exit-code", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let before = Instant::now();
    for _ in 0..times {
        let status = command.status().context("start this program again")?;
        ensure!(status.success(), "it ended with {status}");
    }
    println!("app-spawned n={times} us={}", before.elapsed().as_micros());
    Ok(())
}
