//! What usher reads from the mounts of a process (`/proc/<pid>/mountinfo`,
//! [proc_pid_mountinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html)): the name of its
//! container, the mounts that may contain programs, and whether mounts propagate.
//!
//! The kubelet creates a file for the termination message of every container and mounts it into the container. The
//! mount's root, the fourth field of a line, ends in `pods/<pod uid>/containers/<container name>/<8 hex digits>`. The
//! text before it depends on the place of the kubelet's directory in its file system, and the pod's author sets the
//! mount point (`terminationMessagePath`), so only the end of the root counts. A sandbox has no such mount.
//!
//! procfs-core 0.18 is not used: its `MountInfo` keeps the kernel's octal escapes, and allocates every field of every
//! line, where this reads a few fields of up to 25,000 lines and stops early.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::base::id::PodUid;

/// Types of file systems from which programs are executed, and which respond without a network, a server or a user's
/// process.
const LOCAL: [&str; 13] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "tmpfs", "ramfs", "overlay",
    "squashfs", "erofs",
];

/// Limit of the mounts that [`executable`] returns for one process.
const EXECUTABLE: usize = 256;

/// Limit of the paths of an origin. On a node, the same directory may be mounted in many places.
const PATHS: usize = 8;

/// The container's name, or None while no mount contains it.
pub fn container_name<'text>(mountinfo: &'text str, uid: &PodUid) -> Option<&'text str> {
    mountinfo.lines().find_map(|line| {
        let root = line.split(' ').nth(3)?;
        let mut parts = root.rsplit('/');
        let attempt = parts.next()?;
        let name = parts.next()?;
        let known = parts.next()? == "containers"
            && parts.next()? == uid.as_str()
            && parts.next()? == "pods";
        let plausible = attempt.len() == 8
            && attempt.bytes().all(|byte| byte.is_ascii_hexdigit())
            && !name.is_empty();
        (known && plausible).then_some(name)
    })
}

/// Whether a mount point mentions `text`.
///
/// The runtime mounts a container's root file system below a directory named after the container's id before the
/// container's process exists. Once the process has changed its root, the path is no longer in its mounts, and all
/// its mounts exist.
pub fn has_mount_point_with(mountinfo: &str, text: &str) -> bool {
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .any(|mount_point| mount_point.contains(text))
}

/// Device of a mount at `/`, and its root there; None for a mount elsewhere.
pub fn root(line: &str) -> Option<[&str; 2]> {
    let mut fields = line.split(' ').skip(2);
    let (device, root) = (fields.next()?, fields.next()?);
    (fields.next()? == "/").then_some([device, root])
}

/// Whether a mount at or above a path, other than the root, is of a type that is not known to be local: a lookup may
/// block on it.
pub fn may_block(text: &str, path: &Path) -> bool {
    let foreign = foreign(text);
    let mut points = path.ancestors().filter(|point| point.parent().is_some());
    points.any(|point| foreign.contains(point.as_os_str().as_bytes()))
}

/// The mount points of file systems that are not known to be local.
fn foreign(text: &str) -> BTreeSet<Cow<'_, [u8]>> {
    let mounts = text.lines().filter_map(Mount::read);
    let foreign = mounts.filter(|mount| !LOCAL.contains(&mount.kind));
    foreign.map(|mount| mount.point).collect()
}

/// Id and mount point of every mount, besides the root, that a program may be executed from and that a lookup cannot
/// block on, in the order of their points' bytes; the first 256 of them.
///
/// A lookup on a dead NFS server or FUSE process would block forever. So a mount at or below another one of a type
/// that is not known to be local is left out, whichever of the two was made first. Of several mounts at one point
/// only the last one can be reached.
pub fn executable(text: &str) -> Vec<(u64, PathBuf)> {
    let foreign = foreign(text);
    let mounts = text.lines().filter_map(Mount::read);
    let last: BTreeMap<_, _> = mounts
        .filter(|mount| LOCAL.contains(&mount.kind))
        .map(|mount| (mount.point, (mount.id, mount.noexec)))
        .collect();
    let is_safe = |point: &Path| {
        let mut all = point.ancestors().map(Path::as_os_str);
        !all.any(|point| foreign.contains(point.as_bytes()))
    };
    last.into_iter()
        .filter(|(_point, (_id, noexec))| !noexec)
        .map(|(point, (id, _noexec))| (id, path(&point).to_owned()))
        .filter(|(_id, point)| point.parent().is_some() && is_safe(point))
        .take(EXECUTABLE)
        .collect()
}

/// Whether mounts below `held` propagate to or from other mount namespaces: whether the mount that contains it is in
/// a peer group or the slave of one. None where no mount contains it.
pub fn propagates(text: &str, held: &Path) -> Option<bool> {
    let mounts = text.lines().filter_map(Mount::read);
    let holding = mounts.filter(|mount| held.starts_with(path(&mount.point)));
    // The last one of equally near mounts.
    let nearest = holding.max_by_key(|mount| mount.point.len());
    nearest.map(|mount| mount.propagates)
}

/// A file or directory by its place on its file system, regardless of its mount points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `major:minor` of the file system.
    pub device: String,
    /// Path below the root of the file system.
    pub path: PathBuf,
}

/// The origin of the last mount at this point; None where there is none.
pub fn origin(text: &str, point: &Path) -> Option<Origin> {
    let mounts = text.lines().rev().filter_map(Mount::read);
    let mut at_point = mounts.filter(|mount| path(&mount.point) == point);
    at_point.next().map(|mount| Origin {
        device: mount.device.to_owned(),
        path: path(&mount.root).to_owned(),
    })
}

/// The paths to the origin in this mount table, the nearest mount first.
pub fn paths_of(text: &str, origin: &Origin) -> Vec<PathBuf> {
    let mounts = text.lines().rev().filter_map(Mount::read);
    let mut found: Vec<(usize, PathBuf)> = mounts
        .filter(|mount| mount.device == origin.device)
        .filter_map(|mount| {
            let below = origin.path.strip_prefix(path(&mount.root)).ok()?;
            // Joining an empty path would add a slash.
            let point = path(&mount.point);
            let whole = if below.as_os_str().is_empty() {
                point.to_owned()
            } else {
                point.join(below)
            };
            Some((mount.root.len(), whole))
        })
        .collect();
    found.sort_by_key(|(length, _path)| std::cmp::Reverse(*length));
    found.truncate(PATHS);
    found.into_iter().map(|(_length, path)| path).collect()
}

struct Mount<'text> {
    id: u64,
    /// `major:minor` of its file system.
    device: &'text str,
    /// The path below the root of its file system.
    root: Cow<'text, [u8]>,
    point: Cow<'text, [u8]>,
    noexec: bool,
    propagates: bool,
    /// Type of the file system.
    kind: &'text str,
}

impl<'text> Mount<'text> {
    /// None for an invalid line.
    fn read(line: &'text str) -> Option<Self> {
        let mut fields = line.split(' ');
        let id = fields.next()?.parse().ok()?;
        let device = fields.nth(1)?;
        let root = unescaped(fields.next()?);
        let point = unescaped(fields.next()?);
        let options = fields.next()?;
        let mut propagates = false;
        loop {
            match fields.next()? {
                "-" => break,
                field => propagates |= field.starts_with("shared:") || field.starts_with("master:"),
            }
        }
        let kind = fields.next()?;
        let of_the_file_system = fields.nth(1)?;
        let mut options = options.split(',').chain(of_the_file_system.split(','));
        point.starts_with(b"/").then_some(Self {
            id,
            device,
            root,
            point,
            noexec: options.any(|option| option == "noexec"),
            propagates,
            kind,
        })
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Decodes a path, in which the kernel writes space, tab, newline and backslash as three octal digits
/// ([`mangle_path`](https://github.com/torvalds/linux/blob/v6.12/fs/seq_file.c)).
fn unescaped(field: &str) -> Cow<'_, [u8]> {
    let mut rest = field.as_bytes();
    if !rest.contains(&b'\\') {
        return Cow::Borrowed(rest);
    }
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((&first, after)) = rest.split_first() {
        match (first, after) {
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    after @ ..,
                ],
            ) => {
                let digits = [a, b, c].map(|digit| digit - b'0');
                bytes.push(digits.iter().fold(0, |byte, digit| byte * 8 + digit));
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests;
