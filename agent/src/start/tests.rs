use std::{fs, os::unix::fs::symlink};

use tokio::time::timeout;

use super::*;
use crate::kubernetes::events::EventSender;

const PATIENCE: Duration = Duration::from_secs(60);

/// The starts of an agent whose holder process exits at once.
fn starts(bundle_dir: PathBuf) -> Starts {
    let settings = Settings {
        bundle_dir,
        runtime_state_dirs: Vec::new(),
        proc: ProcRoot::new("/proc"),
        reads: Reads::new(|| {}, |_pod| {}),
        launch: Launch {
            // This program, with the name of no test.
            role: "none",
            flags: vec!["--exact".to_owned()],
            variables: Vec::new(),
        },
    };
    let metrics = Arc::new(Metrics::new());
    Starts::new(
        settings,
        Reporter::new(metrics, EventSender::disabled("node-1")),
    )
}

fn wanted() -> (PodUid, Vec<Start>) {
    let start = Start {
        container: "app".to_owned(),
        limit: Duration::from_secs(60),
        probe: None,
    };
    (PodUid::parse(&"1".repeat(32)).unwrap(), vec![start])
}

/// What the engine learns next about the support of starts.
async fn support(starts: &mut Starts) -> Result<(), String> {
    let support = async {
        loop {
            if let [Event::StartSupport(support)] = starts.next().await.as_slice() {
                return support.clone();
            }
        }
    };
    timeout(PATIENCE, support).await.unwrap()
}

/// As while no inotify instance is free: the watch fails, for a directory that cannot be resolved.
#[tokio::test]
async fn failed_watch_is_reported_and_retried() {
    let dir = tempfile::tempdir().unwrap();
    let bundles = dir.path().join("bundles");
    symlink(&bundles, &bundles).unwrap();
    let mut starts = starts(bundles.clone());
    starts.metrics.start_hold_supported.set(1);
    let (pod, wanted) = wanted();
    // Not reported at once: the engine may name the starts of further pods in the same step.
    assert_eq!(starts.set(&pod, wanted.clone()), []);
    assert!(support(&mut starts).await.is_err());
    assert_eq!(starts.metrics.start_hold_supported.get(), 0);
    // The engine withdraws them.
    assert_eq!(starts.set(&pod, Vec::new()), []);
    fs::remove_file(&bundles).unwrap();
    fs::create_dir(&bundles).unwrap();
    assert_eq!(support(&mut starts).await, Ok(()));
    assert_eq!(starts.metrics.start_hold_supported.get(), 1);
    // And it names them again.
    assert_eq!(starts.set(&pod, wanted), []);
    assert!(starts.bundles.is_some() && starts.failed_watch.is_none());
}

/// The end of the pause reports that starts can be held again.
#[tokio::test]
async fn retried_watch_does_not_end_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let bundles = dir.path().join("bundles");
    symlink(&bundles, &bundles).unwrap();
    let mut starts = starts(bundles.clone());
    let (pod, wanted) = wanted();
    starts.set(&pod, wanted);
    assert!(support(&mut starts).await.is_err());
    starts.holder.pause_starts(PATIENCE);
    fs::remove_file(&bundles).unwrap();
    assert_eq!(starts.retry_watch(), []);
    assert!(starts.failed_watch.is_none());
    assert_eq!(starts.metrics.start_hold_supported.get(), 0);
}

/// A pod that is named before the failure is reported may find the watch working.
#[tokio::test]
async fn watch_that_works_again_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let bundles = dir.path().join("bundles");
    symlink(&bundles, &bundles).unwrap();
    let mut starts = starts(bundles.clone());
    let (pod, wanted) = wanted();
    starts.set(&pod, wanted.clone());
    fs::remove_file(&bundles).unwrap();
    let other = PodUid::parse(&"2".repeat(32)).unwrap();
    starts.set(&other, wanted);
    assert!(starts.bundles.is_some() && starts.report_failed_watch().is_none());
}

/// Otherwise the first retry would come as late as after one failure for each pod.
#[tokio::test]
async fn one_failure_for_many_pods_is_retried_soon() {
    let dir = tempfile::tempdir().unwrap();
    let bundles = dir.path().join("bundles");
    symlink(&bundles, &bundles).unwrap();
    let mut starts = starts(bundles);
    let (_pod, wanted) = wanted();
    for number in 0..9 {
        let pod = PodUid::parse(&number.to_string().repeat(32)).unwrap();
        starts.set(&pod, wanted.clone());
    }
    let now = Instant::now();
    assert!(starts.backoff.due(now) < now + Duration::from_secs(1));
}

/// The program of a start that is held may be on a volume, which only the first process has.
#[tokio::test]
async fn marked_container_is_followed_after_a_lost_watch() {
    let dir = tempfile::tempdir().unwrap();
    let bundles = dir.path().join("bundles");
    let (pod, wanted) = wanted();
    let id = ContainerId::parse(&"a".repeat(64)).unwrap();
    let bundle = bundles.join(id.as_str());
    fs::create_dir_all(&bundle).unwrap();
    let annotations = serde_json::json!({
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.container-name": "app",
        "io.kubernetes.cri.sandbox-uid": pod.as_str(),
    });
    let config = serde_json::json!({ "annotations": annotations });
    fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    let mut starts = starts(bundles);
    // Without a holder process, whose end would end the marks.
    starts.wanted.insert(pod, wanted);
    starts.watch();
    let (marked, _limit) = starts.wanted_start(&id).unwrap();
    starts.marked.insert(id.clone(), marked);
    starts.watch_again();
    let pid = std::process::id();
    fs::write(bundle.join("new.pid"), pid.to_string()).unwrap();
    fs::rename(bundle.join("new.pid"), bundle.join("init.pid")).unwrap();
    let followed = async {
        while starts.marked[&id].init.is_none() {
            starts.next().await;
        }
    };
    timeout(PATIENCE, followed).await.unwrap();
}
