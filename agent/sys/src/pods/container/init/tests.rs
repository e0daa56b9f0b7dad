use std::{fs, path::Path, process};

use tempfile::TempDir;
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

/// A procfs with copies of this process that have these pids, outermost first, and starts.
fn procfs(processes: &[(&[i32], u64)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let [status, stat] = ["status", "stat"]
        .map(|file| fs::read_to_string(Path::new("/proc/self").join(file)).unwrap());
    let (name, fields) = stat.rsplit_once(") ").unwrap();
    for (nspid, start_ticks) in processes {
        let folder = root.path().join(nspid[0].to_string());
        fs::create_dir(&folder).unwrap();
        let nspid: Vec<_> = nspid.iter().map(i32::to_string).collect();
        let nspid = format!("NSpid:\t{}", nspid.join("\t"));
        let status: Vec<_> = { status.lines() }
            .map(|line| match line.starts_with("NSpid:") {
                true => nspid.as_str(),
                false => line,
            })
            .collect();
        fs::write(folder.join("status"), status.join("\n")).unwrap();
        // Field 22; the state is field 3.
        let start_ticks = start_ticks.to_string();
        let mut fields: Vec<_> = fields.split(' ').collect();
        fields[19] = &start_ticks;
        let stat = format!("{name}) {}", fields.join(" "));
        fs::write(folder.join("stat"), stat).unwrap();
    }
    root
}

/// The runtime's stage has no mounts of the image, so the search goes on until the stage has ended.
#[tokio::test(start_paused = true)]
async fn search_outlasts_a_stage_beside_pid_one() {
    let own = process::id() as i32;
    let proc = procfs(&[(&[1, 7], 1), (&[own, 1], 9)]);
    let cgroup = tempfile::tempdir().unwrap();
    let search = async |processes: &str| {
        let container = Container {
            proc: ProcRoot::new(proc.path()),
            ..container(cgroup.path(), processes)
        };
        container.init_process().await
    };
    let found = search(&format!("1\n{own}\n")).await;
    assert!(matches!(found, Err(Error::NoProcess(_))), "{found:?}");
    let found = search(&own.to_string()).await.unwrap();
    assert_eq!(found.map(|pidfd| pidfd.pid()), Some(Pid(own)));
}

/// A probe in the container's own cgroup does not hide the processes that the container moved to one below it.
#[tokio::test]
async fn nested_cgroups_are_searched_until_a_pid_one() {
    let proc = procfs(&[(&[50, 1], 1), (&[60, 11], 1), (&[80, 30], 9)]);
    let cgroup = tempfile::tempdir().unwrap();
    let nested = cgroup.path().join("app");
    fs::create_dir(&nested).unwrap();
    fs::write(nested.join("cgroup.procs"), "60\n").unwrap();
    let pids = async |processes: &str| {
        let container = Container {
            proc: ProcRoot::new(proc.path()),
            ..container(cgroup.path(), processes)
        };
        let found = container.candidates().await.unwrap().unwrap();
        let mut pids: Vec<_> = found.iter().map(|candidate| candidate.pid.0).collect();
        pids.sort_unstable();
        pids
    };
    assert_eq!(pids("80\n").await, [60, 80]);
    assert_eq!(pids("50\n80\n").await, [50, 80]);
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
