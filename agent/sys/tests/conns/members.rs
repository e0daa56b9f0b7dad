//! The containers of a pod in cgroup trees with several layouts.

use std::{fs, path::Path};

use usher_core::base::id::{ContainerId, Pid, PodUid};
use usher_sys::net::owner::members;

const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

fn cgroup(path: &Path, pids: &str, is_v2: bool) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("cgroup.procs"), pids).unwrap();
    if is_v2 {
        fs::write(path.join("cgroup.controllers"), "").unwrap();
    }
}

#[test]
fn only_processes_of_the_pods_containers_are_listed() {
    let uid = PodUid::parse(UID).unwrap();
    let underscored = UID.replace('-', "_");
    let (one, two) = ("ab".repeat(32), "cd".repeat(32));
    for (pod, name, is_v2) in [
        (format!("kubepods/pod{UID}"), one.clone(), true),
        (format!("kubepods/burstable/pod{UID}"), one.clone(), false),
        (
            format!(
                "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{underscored}.slice"
            ),
            format!("cri-containerd-{one}.scope"),
            true,
        ),
    ] {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join(pod);
        cgroup(&pod, "1\n", is_v2);
        cgroup(&pod.join(&name), "10\n0\n11\n", is_v2);
        cgroup(&pod.join(&name).join("container/deeper"), "12\nx\n", is_v2);
        cgroup(&pod.join(format!("crio-conmon-{one}")), "13\n", is_v2);
        let other = pod.with_file_name(
            pod.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .replace("11", "12"),
        );
        cgroup(&other.join(&two), "14\n", is_v2);
        cgroup(&root.path().join("system.slice"), "15\n", is_v2);
        let found = members(root.path(), &uid).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].id, ContainerId::parse(&one).unwrap());
        assert_eq!(found[0].pids, [10, 11, 12].map(Pid));
        // An additional v1 directory.
        assert_eq!(found[0].cgroups.len(), if is_v2 { 2 } else { 0 });
    }
}

#[test]
fn pod_without_cgroup_has_no_members() {
    let root = tempfile::tempdir().unwrap();
    let uid = PodUid::parse(UID).unwrap();
    assert_eq!(members(root.path(), &uid).unwrap(), []);
    fs::create_dir(root.path().join("kubepods")).unwrap();
    assert_eq!(members(root.path(), &uid).unwrap(), []);
}
