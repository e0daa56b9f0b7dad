//! The watchdog of a stopped process.

use std::{os::unix::process::ExitStatusExt, time::Duration};

use nix::sys::signal::{Signal, raise};
use usher_sys::process::watchdog::Watchdog;

use crate::alone;

#[test]
fn stopped_process_is_killed() {
    if alone::is_alone() {
        let mut watchdog = Watchdog::new().unwrap();
        watchdog.arm(Duration::from_secs(3600)).unwrap();
        watchdog.arm(Duration::from_millis(100)).unwrap();
        raise(Signal::SIGSTOP).unwrap();
        unreachable!("no process continues it");
    }
    let ended = alone::run("watchdog::stopped_process_is_killed");
    assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32), "{ended}");
}
