//! The files of a runtime before, during and after the life of a container, on a
//! node with bundles.
//!
//! The order is that of containerd and runc: directory, `config.json`, mount of the
//! root, `log.json`. When the init process waits for its start, `init.pid` follows,
//! which is first written under another name. Then a byte in a fifo
//! starts the init process.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{ConfigText, Order, Root, Task};

use crate::{container::bundle, container::config};

/// A user without a process.
const FOREIGN: u32 = 70_000;
/// The fifo at which the init process waits.
const FIFO: &str = "start";

/// Creates a bundle, up to the mount and the files after it.
pub(crate) fn make(order: &Order, task: &Task) -> Result<(), String> {
    let tasks = order.bundle.parent().unwrap_or(Path::new("/"));
    made(tasks, std::fs::create_dir_all(tasks))?;
    let (upper, work) = (task.snapshot.join("fs"), task.snapshot.join("work"));
    for directory in [&upper, &work] {
        made(directory, std::fs::create_dir_all(directory))?;
    }
    let fifo = task.snapshot.join(FIFO);
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|error| format!("mkfifo: {error}"))?;
    if task.shape.linked {
        let elsewhere = task.snapshot.join("bundle");
        made(&elsewhere, std::fs::create_dir(&elsewhere))?;
        made(&order.bundle, symlink(&elsewhere, &order.bundle))?;
    } else {
        made(&order.bundle, std::fs::create_dir(&order.bundle))?;
    }
    let root = bundle::root(&order.bundle);
    made(&root, std::fs::create_dir(&root))?;
    write_config(order, task)?;
    std::thread::sleep(order.pace.mount);
    match task.shape.root {
        Root::Bind => bundle::bind(&order.root, &root)?,
        Root::Overlay => overlay(&order.root, &upper, &work, &root)?,
        Root::Unreadable => unreadable_overlay(&order.root, &upper, &root)?,
    }
    let log = order.bundle.join("log.json");
    made(&log, std::fs::write(&log, ""))?;
    std::thread::sleep(order.pace.create);
    Ok(())
}

fn write_config(order: &Order, task: &Task) -> Result<(), String> {
    let path = order.bundle.join("config.json");
    let mut file = File::create(&path).map_err(|error| format!("config.json: {error}"))?;
    for (n, part) in config::parts(order, task).iter().enumerate() {
        if let (1.., ConfigText::InParts(time)) = (n, task.shape.config) {
            std::thread::sleep(time);
        }
        made(&path, file.write_all(part))?;
    }
    Ok(())
}

fn overlay(lower: &Path, upper: &Path, work: &Path, root: &Path) -> Result<(), String> {
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let (kind, flags) = (Some("overlay"), MsFlags::empty());
    mount(kind, root, kind, flags, Some(options.as_str()))
        .map_err(|error| format!("overlay at {}: {error}", root.display()))
}

/// The mounter lacks the capabilities that let root read all files. Without them it cannot create a work directory, so
/// the overlay has lower layers only.
fn unreadable_overlay(lower: &Path, upper: &Path, root: &Path) -> Result<(), String> {
    let program = upper.join(program::IN_CONTAINER.trim_start_matches('/'));
    made(
        &program,
        std::fs::copy("/proc/self/exe", &program).map(drop),
    )?;
    made(&program, chown(&program, Some(FOREIGN), Some(FOREIGN)))?;
    made(
        &program,
        std::fs::set_permissions(&program, Permissions::from_mode(0o711)),
    )?;
    let layers = format!("lowerdir={}:{}", upper.display(), lower.display());
    let mounted = Command::new("setpriv")
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .args(["mount", "-t", "overlay", "overlay", "-o", &layers])
        .arg(root)
        .stdout(Stdio::null())
        .status();
    match mounted {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("mount: {status}")),
        Err(error) => Err(format!("setpriv: {error}")),
    }
}

/// In the init process: opens the fifo before its root changes.
pub(crate) fn open_fifo(task: &Task) -> Result<File, String> {
    let mut options = OpenOptions::new();
    // Otherwise the open would block.
    let opened = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(task.snapshot.join(FIFO));
    opened.map_err(|error| format!("fifo: {error}"))
}

/// In the init process: waits for its start.
pub(crate) fn wait_at(fifo: &File) -> Result<(), String> {
    let mut fds = [PollFd::new(fifo.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(format!("poll: {error}")),
        }
    }
}

/// In the shim: starts the waiting init process with this pid.
pub(crate) fn start(order: &Order, task: &Task, init: i32) -> Result<(), String> {
    write_pid(&order.bundle, "init", init)?;
    let mut options = OpenOptions::new();
    let opened = options
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(task.snapshot.join(FIFO));
    match opened {
        Ok(mut fifo) => made(&task.snapshot, fifo.write_all(b"0")),
        // The init process was killed before.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        Err(error) => Err(format!("start: {error}")),
    }
}

/// Writes a pid file as runc does.
pub(crate) fn write_pid(bundle: &Path, name: &str, pid: i32) -> Result<(), String> {
    let (hidden, file) = (format!(".{name}.pid"), format!("{name}.pid"));
    let hidden = bundle.join(hidden);
    made(&hidden, std::fs::write(&hidden, pid.to_string()))?;
    made(&hidden, std::fs::rename(&hidden, bundle.join(file)))
}

/// Removes a bundle; false if its root is still in use.
pub(crate) fn remove(order: &Order, task: &Task) -> bool {
    let root = bundle::root(&order.bundle);
    // Other errors: the root was never mounted, or is unmounted.
    if umount2(&root, MntFlags::empty()) == Err(Errno::EBUSY) {
        return false;
    }
    // The mounted directories must not be emptied.
    if root.exists() && std::fs::remove_dir(&root).is_err() {
        return false;
    }
    // As containerd does, so that no reader sees a part of it.
    let hidden = hidden(&order.bundle);
    drop(std::fs::rename(&order.bundle, &hidden));
    if hidden.is_symlink() {
        drop(std::fs::remove_file(&hidden));
    } else {
        drop(std::fs::remove_dir_all(&hidden));
    }
    drop(std::fs::remove_dir_all(&task.snapshot));
    true
}

/// The same, even if it is in use.
pub(crate) fn remove_at_once(order: &Order, task: &Task) {
    if !remove(order, task) {
        umount2(&bundle::root(&order.bundle), MntFlags::MNT_DETACH).ok();
        remove(order, task);
    }
}

fn hidden(bundle: &Path) -> PathBuf {
    let name = bundle.file_name().unwrap_or_default();
    bundle.with_file_name(format!(".{}", name.display()))
}

fn made(path: &Path, outcome: std::io::Result<()>) -> Result<(), String> {
    outcome.map_err(|error| format!("{}: {error}", path.display()))
}
