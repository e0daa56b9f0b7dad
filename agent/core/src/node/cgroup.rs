//! Parses the names of cgroup directories below `kubepods`.
//!
//! Two cgroup drivers of the kubelet and three families of runtimes give these forms (kubelet
//! `pkg/kubelet/cm/cgroup_manager_linux.go`, containerd `pkg/cri`, CRI-O `internal/config/cgmgr`):
//!
//! | driver | pod | container |
//! | --- | --- | --- |
//! | cgroupfs | `pod<UID>` | `<id>`, `crio-<id>` |
//! | systemd | `kubepods[-<qos>]-pod<UID with _ for ->.slice` | `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope` |
//!
//! A directory with another form is not an error: other software creates cgroups too.

use crate::base::id::{ContainerId, PodUid};

/// Directory of all pods with the cgroupfs driver.
const KUBEPODS: &str = "kubepods";
/// Directory of all pods with the systemd driver (an optional prefix stands
/// before it, as with kind's `kubelet-kubepods.slice`).
const KUBEPODS_SLICE: &str = "kubepods.slice";

/// Whether this directory, found in the cgroup root, contains all pods.
pub fn is_kubepods(name: &str) -> bool {
    name == KUBEPODS
        || name
            .strip_suffix(KUBEPODS_SLICE)
            .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('-'))
}

/// Whether this directory, found in the `kubepods` directory, contains the pods of one QoS class.
pub fn is_qos(name: &str) -> bool {
    let class = match name.strip_suffix(".slice") {
        None => name,
        Some(slice) => match slice.rsplit_once('-') {
            Some((parent, class)) if parent.ends_with(KUBEPODS) => class,
            _ => return false,
        },
    };
    matches!(class, "besteffort" | "burstable")
}

/// UID of the pod that this directory belongs to.
pub fn pod(name: &str) -> Option<PodUid> {
    let Some(slice) = name.strip_suffix(".slice") else {
        return PodUid::parse(name.strip_prefix("pod")?).ok();
    };
    let (parents, uid) = slice.rsplit_once("-pod")?;
    if !parents.contains(KUBEPODS) {
        return None;
    }
    PodUid::parse(&uid.replace('_', "-")).ok()
}

/// Id of the container that this directory, found in a pod's, belongs to. The pod's sandbox has one as well. CRI-O's
/// monitor (`crio-conmon-<id>`) is not a container.
pub fn container(name: &str) -> Option<ContainerId> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    // Where containerd and the kubelet use different drivers, containerd creates one path component from three:
    // `slice:cri-containerd:<id>`.
    let name = name.rsplit(':').next().unwrap_or(name);
    let id = ["cri-containerd-", "crio-", "docker-"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    ContainerId::parse(id).ok()
}

/// The container whose cgroup a process is in, from `/proc/<pid>/cgroup`.
///
/// Paths may begin with `/../..` where the reader has its own cgroup namespace, and may continue below the container
/// where it created cgroups, so the components are searched, not counted.
pub fn of_process(text: &str) -> Option<(PodUid, ContainerId)> {
    text.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        let mut components = path.split('/');
        let uid = components.by_ref().find_map(pod)?;
        Some((uid, components.next().and_then(container)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";
    const UNDERSCORED: &str = "0d7e0c5c_6f0c_4b5a_9c1d_8a6d8a0f2b11";

    #[test]
    fn parents() {
        assert!(is_kubepods("kubepods"));
        assert!(is_kubepods("kubepods.slice"));
        assert!(is_kubepods("kubelet-kubepods.slice"));
        assert!(!is_kubepods("mykubepods.slice"));
        assert!(!is_kubepods("system.slice"));
        assert!(is_qos("besteffort"));
        assert!(is_qos("kubepods-burstable.slice"));
        assert!(is_qos("kubelet-kubepods-besteffort.slice"));
        assert!(!is_qos("user-burstable.slice"));
        assert!(!is_qos("guaranteed"));
    }

    #[test]
    fn pods() {
        for name in [
            format!("pod{UID}"),
            format!("kubepods-pod{UNDERSCORED}.slice"),
            format!("kubepods-besteffort-pod{UNDERSCORED}.slice"),
            format!("kubelet-kubepods-burstable-pod{UNDERSCORED}.slice"),
        ] {
            assert_eq!(pod(&name).unwrap().as_str(), UID, "{name}");
        }
        for name in [
            "pod",
            "podcast",
            "pod..",
            "besteffort",
            &format!("user-pod{UNDERSCORED}.slice"),
            &format!("pod{UNDERSCORED}"),
        ] {
            assert_eq!(pod(name), None, "{name}");
        }
    }

    #[test]
    fn containers() {
        let id = "ab".repeat(32);
        for name in [
            id.clone(),
            format!("cri-containerd-{id}.scope"),
            format!("crio-{id}.scope"),
            format!("crio-{id}"),
            format!("docker-{id}.scope"),
            format!("kubepods-pod{UNDERSCORED}.slice:cri-containerd:{id}"),
        ] {
            assert_eq!(container(&name).unwrap().as_str(), id, "{name}");
        }
        for name in [
            format!("crio-conmon-{id}.scope"),
            format!("crio-conmon-{id}"),
            "cgroup.procs".to_owned(),
            "init.scope".to_owned(),
        ] {
            assert_eq!(container(&name), None, "{name}");
        }
    }

    #[test]
    fn lines_of_a_process() {
        let id = "cd".repeat(32);
        let expected = Some((
            PodUid::parse(UID).unwrap(),
            ContainerId::parse(&id).unwrap(),
        ));
        for text in [
            format!("9:name=systemd:/\n0::/kubepods/besteffort/pod{UID}/{id}\n"),
            format!("0::/../../pod{UID}/{id}\n"),
            format!("4:memory:/kubepods/pod{UID}/{id}\n0::/\n"),
            format!("0::/x/kubepods/pod{UID}/{id}/nested/deeper\n"),
        ] {
            assert_eq!(of_process(&text), expected, "{text}");
        }
        for text in ["", "0::/\n", "no colons", "0::/kubepods/podx/y\n"] {
            assert_eq!(of_process(text), None, "{text}");
        }
    }
}
