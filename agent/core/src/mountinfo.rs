//! The name of a container, from the mounts of its process.
//!
//! The kubelet gives every container a file of its own for its termination
//! message and mounts it into the container. The mount's root, the fourth
//! field of `/proc/<pid>/mountinfo`
//! ([proc_pid_mountinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html)),
//! ends in `pods/<pod uid>/containers/<container name>/<8 hex digits>`. What
//! stands before that depends on where the kubelet's directory lies on its
//! file system, and where the file is mounted is for the pod's author to say
//! (`terminationMessagePath`), so only the end of the root counts. A sandbox
//! has no such mount.

use crate::id::PodUid;

/// The container's name, or None when no mount tells it (yet).
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
/// The runtime mounts a container's root file system below a directory named
/// after the container's id before the container's process exists; the process
/// no longer sees that path once it has changed its root, and by then all its
/// mounts are made.
pub fn has_mount_point_with(mountinfo: &str, text: &str) -> bool {
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .any(|mount_point| mount_point.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

    fn name(root: &str) -> Option<String> {
        let uid = PodUid::parse(UID).unwrap();
        let text = format!(
            "700 600 0:60 / / rw,relatime master:1 - overlay overlay rw\n\
             710 700 254:0 {root} /dev/termination-log rw,relatime - ext4 /dev/vda rw\n"
        );
        container_name(&text, &uid).map(str::to_owned)
    }

    #[test]
    fn roots() {
        let found = Some("istio-proxy".to_owned());
        assert_eq!(
            name(&format!(
                "/var/lib/kubelet/pods/{UID}/containers/istio-proxy/0a1b2c3d"
            )),
            found
        );
        assert_eq!(
            name(&format!("/pods/{UID}/containers/istio-proxy/0a1b2c3d")),
            found
        );
        let other = UID.replace('0', "1");
        for root in [
            format!("/pods/{other}/containers/istio-proxy/0a1b2c3d"),
            format!("/pods/{UID}/volumes/istio-proxy/0a1b2c3d"),
            format!("/pods/{UID}/containers/istio-proxy/data"),
            format!("/pods/{UID}/containers//0a1b2c3d"),
            "/".to_owned(),
        ] {
            assert_eq!(name(&root), None, "{root}");
        }
    }

    #[test]
    fn short_lines_are_no_answer() {
        let uid = PodUid::parse(UID).unwrap();
        for text in ["", "\n", "1 2 3", "1 2 3 /a/b"] {
            assert_eq!(container_name(text, &uid), None);
        }
    }

    #[test]
    fn mount_points() {
        let text = "1 0 0:1 / /run/k8s.io/abc/rootfs rw - overlay overlay rw\n";
        assert!(has_mount_point_with(text, "abc"));
        assert!(!has_mount_point_with(text, "overlay"));
    }
}
