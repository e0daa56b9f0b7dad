//! An app that does harm.
//!
//! Its mounts are on a separate file system at `/proc`, which no test program needs. A bind mount of a
//! directory there has the path below it as its root in mountinfo
//! ([proc_pid_mountinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html)).

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{End, Mischief, MountTrick};

use crate::{BROKEN, container::bundle, program::app, say, say_running};

/// A separate file system.
const GROUND: &str = "/proc";
/// Bytes that `/proc` escapes as four.
const ESCAPED: [u8; 4] = *b" \t\n\\";
/// The other bytes of a name.
const LONG: usize = 250;

/// Does harm, and runs until it is terminated.
pub(crate) fn run(mischief: &Mischief) -> ExitCode {
    say_running();
    if let Err(reason) = prepare(mischief) {
        say(&format!("failed mischief: {reason}"));
        return ExitCode::from(BROKEN);
    }
    say("done");
    let code = app::app(End::OnCommand);
    if mischief.bomb > 0 {
        split(mischief.bomb);
    }
    code
}

/// One process of a bomb: starts more of them, and runs on.
pub(crate) fn splinter(left: u32) -> ExitCode {
    let half = left / 2;
    split(left - half);
    split(half);
    loop {
        std::thread::park();
    }
}

/// One process that starts this number of others. It inherits nothing of its parent, so that no process waits for its exit;
/// a container here has no `/dev/null`.
fn split(processes: u32) {
    let Some(left) = processes.checked_sub(1) else {
        return;
    };
    let nothing = || File::open(program::IN_CONTAINER).map(Stdio::from);
    let (Ok(input), Ok(output), Ok(errors)) = (nothing(), nothing(), nothing()) else {
        return;
    };
    let mut command = Command::new(program::IN_CONTAINER);
    command.arg("splinter").arg(left.to_string());
    // It does not matter if the bomb reaches a limit.
    drop(command.stdin(input).stdout(output).stderr(errors).spawn());
}

fn prepare(mischief: &Mischief) -> Result<(), String> {
    if !mischief.name.is_empty() {
        let name = std::ffi::CString::new(mischief.name.clone());
        let name = name.map_err(|error| format!("name: {error}"))?;
        nix::sys::prctl::set_name(&name).map_err(|error| format!("name: {error}"))?;
    }
    for trick in &mischief.mounts {
        play(trick)?;
    }
    if mischief.nests_pids {
        unshare(CloneFlags::CLONE_NEWPID)
            .map_err(|error| format!("unshare(CLONE_NEWPID): {error}"))?;
        split(1);
    }
    Ok(())
}

fn play(trick: &MountTrick) -> Result<(), String> {
    match trick {
        MountTrick::HideTerminationLog => umount2(program::TERMINATION_LOG, MntFlags::MNT_DETACH)
            .map_err(|error| format!("umount: {error}")),
        MountTrick::Claim { uid, container } => {
            let uid = uid.clone().map_or_else(own_pod, Ok)?;
            tmpfs(Path::new(GROUND))?;
            let directory = Path::new(GROUND).join(format!("pods/{uid}/containers/{container}"));
            made(std::fs::create_dir_all(&directory))?;
            let (log, over) = (directory.join("0a1b2c3d"), Path::new(GROUND).join("log"));
            made(std::fs::write(&log, ""))?;
            made(std::fs::write(&over, ""))?;
            bundle::bind(&log, &over)
        }
        MountTrick::OverOwnProcess => {
            procfs()?;
            tmpfs(&Path::new(GROUND).join("1"))
        }
        MountTrick::Many { mounts, depth } => {
            tmpfs(Path::new(GROUND))?;
            let levels = (0..*depth).map(|_level| name(0));
            let place = levels.fold(PathBuf::from(GROUND), |path, level| path.join(level));
            made(std::fs::create_dir_all(&place))?;
            (0..*mounts).try_for_each(|number| {
                let directory = place.join(name(number));
                made(std::fs::create_dir(&directory))?;
                tmpfs(&directory)
            })
        }
    }
}

/// A name that is long in `/proc`.
fn name(number: usize) -> OsString {
    let mut bytes = number.to_string().into_bytes();
    let filler = ESCAPED.iter().cycle().copied();
    bytes.extend(filler.take(LONG.saturating_sub(bytes.len())));
    OsString::from_vec(bytes)
}

/// The UID of its own pod, from its mounts.
fn own_pod() -> Result<String, String> {
    procfs()?;
    let text = std::fs::read_to_string("/proc/self/mountinfo");
    let text = text.map_err(|error| format!("mountinfo: {error}"))?;
    let uid = text
        .split("/pods/")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    uid.map(str::to_owned)
        .ok_or_else(|| "no termination log".to_owned())
}

fn procfs() -> Result<(), String> {
    let kind = Some("proc");
    mount(kind, GROUND, kind, MsFlags::empty(), None::<&str>)
        .map_err(|error| format!("mount procfs: {error}"))
}

fn tmpfs(at: &Path) -> Result<(), String> {
    let kind = Some("tmpfs");
    mount(kind, at, kind, MsFlags::empty(), None::<&str>)
        .map_err(|error| format!("tmpfs at {}: {error}", at.display()))
}

fn made(outcome: std::io::Result<()>) -> Result<(), String> {
    outcome.map_err(|error| error.to_string())
}
