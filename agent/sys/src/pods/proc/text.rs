//! Checks two files of a process before the procfs crate decodes them.
//!
//! A process chooses its name (`PR_SET_NAME`,
//! [prctl(2)](https://man7.org/linux/man-pages/man2/PR_SET_NAME.2const.html)) from any bytes but zero. The kernel
//! escapes only a line feed and a backslash in it, and only in `status`
//! ([proc_task_name](https://github.com/torvalds/linux/blob/v6.12/fs/proc/array.c)). procfs rejects a `status` that is
//! not UTF-8, and panics on a `stat` that ends after the name.

use procfs::{
    FromRead, ProcError,
    process::{Stat, Status},
};
use usher_core::{base::id::Pid, node::init_process::Candidate};

/// The properties that the choice of an init process depends on.
pub fn candidate(pid: Pid, status: &[u8], stat: &[u8]) -> Result<Candidate, ProcError> {
    let status = String::from_utf8_lossy(status);
    let status = Status::from_read(status.as_bytes())?;
    let stat = self::stat(stat)?;
    Ok(Candidate {
        pid,
        parent: Pid(stat.ppid),
        nspid: status.nspid.unwrap_or_default(),
        start_ticks: stat.starttime,
    })
}

/// Decodes `stat`: the pid, the name in parentheses, and fields after it.
pub fn stat(bytes: &[u8]) -> Result<Stat, ProcError> {
    if !is_whole(bytes) {
        return Err(ProcError::Other("no name in parentheses".to_owned()));
    }
    Stat::from_read(bytes)
}

/// Whether it starts with `7 (name) S`. A name may contain parentheses and spaces.
fn is_whole(stat: &[u8]) -> bool {
    let open = stat.iter().position(|byte| *byte == b'(');
    let close = stat.iter().rposition(|byte| *byte == b')');
    let (Some(open), Some(close)) = (open, close) else {
        return false;
    };
    let [number @ .., b' '] = &stat[..open] else {
        return false;
    };
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let behind = stat.get(close + 1..).unwrap_or_default();
    is_number && open < close && matches!(behind, [b' ', state, ..] if state.is_ascii_alphabetic())
}
