use std::{fs, path::Path, process};

use tokio::time::Instant;
use usher_core::base::id::{ContainerId, ContainerKey, PodUid};

use super::super::init::*;
use crate::pods::proc::ProcRoot;

/// A container whose cgroup has these processes.
fn container(cgroup: &Path, processes: &str) -> Container {
    fs::write(cgroup.join("cgroup.procs"), processes).unwrap();
    Container {
        key: ContainerKey {
            pod: PodUid::parse("0a1b2c3d-0000-4000-8000-000000000001").unwrap(),
            id: ContainerId::parse(&"a".repeat(64)).unwrap(),
        },
        cgroup: cgroup.into(),
        proc: ProcRoot::new("/proc"),
    }
}

/// How long the init process of a container is looked for whose cgroup has these processes.
async fn looked_for(processes: &str) -> Duration {
    let cgroup = tempfile::tempdir().unwrap();
    let container = container(cgroup.path(), processes);
    let begin = Instant::now();
    let found = container.init_process().await;
    assert!(matches!(found, Err(Error::NoProcess(_))), "{found:?}");
    begin.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_shows_nothing_hides_its_processes() {
    let passed = looked_for("").await;
    assert!((START..2 * START).contains(&passed), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_at_work_is_waited_for_longer_than_the_kubelet_does() {
    let passed = looked_for(&process::id().to_string()).await;
    assert!((STAGES..2 * STAGES).contains(&passed), "{passed:?}");
}

#[tokio::test]
async fn a_process_whose_cgroup_is_named_as_from_elsewhere_is_taken_from_the_cgroup() {
    let cgroup = tempfile::tempdir().unwrap();
    let own = process::id().to_string();
    let pid = Pid(own.parse().unwrap());
    let listed = container(cgroup.path(), &own).open(pid).unwrap();
    assert_eq!(listed.map(|pidfd| pidfd.pid()), Some(pid));
    assert!(container(cgroup.path(), "").open(pid).unwrap().is_none());
}
