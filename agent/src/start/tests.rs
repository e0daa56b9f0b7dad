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
