//! The mounts of a container.
//!
//! As a runtime does, the shim mounts the container's root below a directory
//! with the container's name, before the container has a process. The
//! container's init process then mounts into it and makes it its root. All of
//! this happens in mount namespaces without propagation, so no mount is
//! visible or left on the machine.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{Entry, Order};

/// Gives this process its own mount namespace, without the later mounts of the other ones.
pub(crate) fn isolate() -> Result<(), String> {
    unshare_mounts(MsFlags::MS_PRIVATE)
}

/// Gives this process its own mount namespace, with this propagation from the other ones.
pub(crate) fn unshare_mounts(propagation: MsFlags) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("unshare(CLONE_NEWNS): {error}"))?;
    let flags = MsFlags::MS_REC | propagation;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(|error| format!("changing the propagation of /: {error}"))
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
    // A container that failed early has nothing mounted; the end of the namespace
    // removes the rest.
    umount2(&root(bundle), MntFlags::MNT_DETACH).ok();
    // Never recursive: the mounted directories must not be emptied.
    drop(std::fs::remove_dir(root(bundle)));
    drop(std::fs::remove_dir(bundle));
}

/// Mounts the libraries that the program needs, the termination log, and the
/// program itself if it belongs on a mount of its own.
pub(crate) fn furnish(root: &Path, order: &Order) -> Result<(), String> {
    for shared in program::library_directories() {
        bind(&shared, &inside(root, &shared))?;
    }
    let entry = order.task.as_ref().map(|task| task.entry);
    if entry.is_none_or(|entry| entry == Entry::MountedOver) {
        // The link itself leads to a mount of another namespace; its text does not.
        let this = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
        bind(&this, &inside(root, Path::new(program::IN_CONTAINER)))?;
    }
    if let Some(task) = &order.task
        && task.entry == Entry::Volume
    {
        bind(&task.volume, &inside(root, Path::new(program::VOLUME)))?;
    }
    if let Some(log) = &order.termination_log {
        bind(log, &inside(root, Path::new(program::TERMINATION_LOG)))?;
    }
    for (file, point) in &order.files {
        bind(file, &inside(root, point))?;
    }
    Ok(())
}

/// Creates the directories of a container in the cgroup tree.
pub(crate) fn make_cgroups(order: &Order) -> Result<(), String> {
    let subgroup = order.subgroup.as_ref().map(|name| order.cgroup.join(name));
    let directories = [
        order.monitor.as_ref(),
        Some(&order.cgroup),
        subgroup.as_ref(),
    ];
    for directory in directories.into_iter().flatten() {
        std::fs::create_dir(directory)
            .map_err(|error| format!("mkdir {}: {error}", directory.display()))?;
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
