//! The mounts of a container.
//!
//! As a runtime does, the shim mounts the container's root below a directory
//! that is named after the container, before the container has a process; the
//! container's init process then mounts into it and makes it its root. All of
//! it happens in mount namespaces that propagate nothing, so no mount is ever
//! seen, or left, on the machine.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use usher_tests::synthetic::program;

/// Gives this process mounts of its own.
pub(crate) fn isolate() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("unshare(CLONE_NEWNS): {error}"))?;
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(|error| format!("make / private: {error}"))
}

/// Where the root of the container with this bundle is mounted.
pub(crate) fn root(bundle: &Path) -> PathBuf {
    bundle.join("rootfs")
}

/// Mounts a container's root. Only after [`isolate`].
pub(crate) fn open(bundle: &Path, template: &Path) -> Result<(), String> {
    let root = root(bundle);
    std::fs::create_dir_all(&root).map_err(|error| format!("mkdir {}: {error}", root.display()))?;
    bind(template, &root)
}

/// Unmounts what [`open`] mounted.
pub(crate) fn close(bundle: &Path) {
    // A container that failed half-way has nothing mounted; the namespace's
    // end takes the rest.
    umount2(&root(bundle), MntFlags::MNT_DETACH).ok();
    // Never recursive: what is mounted there must not be emptied.
    drop(std::fs::remove_dir(root(bundle)));
    drop(std::fs::remove_dir(bundle));
}

/// Mounts the program, the libraries it needs and the termination log.
pub(crate) fn furnish(root: &Path, termination_log: Option<&Path>) -> Result<(), String> {
    for shared in program::library_directories() {
        bind(&shared, &inside(root, &shared))?;
    }
    // The link itself leads to a mount of another namespace; its text does not.
    let this = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
    bind(&this, &inside(root, Path::new(program::IN_CONTAINER)))?;
    if let Some(log) = termination_log {
        bind(log, &inside(root, Path::new(program::TERMINATION_LOG)))?;
    }
    Ok(())
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts a file or directory over another. Only after [`isolate`].
pub(crate) fn bind(source: &Path, target: &Path) -> Result<(), String> {
    mount(
        Some(source),
        target,
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    )
    .map_err(|error| format!("bind {} to {}: {error}", source.display(), target.display()))
}
