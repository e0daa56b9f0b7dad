use std::{fs, path::Path, process};

use tokio::time::Instant;
use usher_core::base::id::{ContainerId, ContainerKey, PodUid};

use super::super::init::*;
use crate::pods::{proc::ProcRoot, reads::Reads};

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
        reads: Reads::on_paused_clock(),
    }
}

/// Duration of the search in a container with these processes.
async fn search_time(processes: &str) -> Duration {
    let cgroup = tempfile::tempdir().unwrap();
    let container = container(cgroup.path(), processes);
    let begin = Instant::now();
    let found = container.init_process().await;
    assert!(matches!(found, Err(Error::NoProcess(_))), "{found:?}");
    begin.elapsed()
}

#[tokio::test(start_paused = true)]
async fn search_in_an_empty_cgroup_ends() {
    let passed = search_time("").await;
    assert!((START..2 * START).contains(&passed), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn search_outlasts_the_kubelets_timeout_for_the_runtime() {
    let passed = search_time(&process::id().to_string()).await;
    assert!((STAGES..2 * STAGES).contains(&passed), "{passed:?}");
}

#[tokio::test]
async fn process_with_a_cgroup_path_of_another_namespace_is_found() {
    let cgroup = tempfile::tempdir().unwrap();
    let own = process::id().to_string();
    let pid = Pid(own.parse().unwrap());
    let listed = container(cgroup.path(), &own).open(pid).unwrap();
    assert_eq!(listed.map(|pidfd| pidfd.pid()), Some(pid));
    assert!(container(cgroup.path(), "").open(pid).unwrap().is_none());
}
