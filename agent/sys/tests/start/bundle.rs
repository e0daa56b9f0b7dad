//! Bundles that the tests create step by step, as a runtime does.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{mount::MsFlags, sys::stat::Mode, unistd::mkfifo};
use tokio::time::timeout;
use usher_core::base::id::ContainerId;
use usher_sys::oci::bundle::{Bundles, Observation};

use crate::scratch::{inside_loop, overlay, tmpfs, unmount};

const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";
/// Names of bundles.
const ONE: &str = "1111111111111111";
const TWO: &str = "2222222222222222";

fn id(text: &str) -> ContainerId {
    ContainerId::parse(text).unwrap()
}

fn config(name: &str) -> String {
    format!(
        r#"{{"ociVersion":"1.0.2","process":{{"args":["app"]}},"annotations":{{
        "io.kubernetes.cri.container-type":"container",
        "io.kubernetes.cri.container-name":"{name}",
        "io.kubernetes.cri.sandbox-uid":"{UID}"}}}}"#
    )
}

/// A short text for an observation.
fn word(observation: &Observation) -> String {
    match observation {
        Observation::Created(id, bundle) => {
            assert_eq!(bundle.pod.as_str(), UID);
            let name = bundle.container.as_deref().unwrap_or("sandbox");
            format!("{} made {name}", &id.as_str()[..1])
        }
        Observation::Mounted(id, Ok(())) => format!("{} mounted", &id.as_str()[..1]),
        Observation::Mounted(id, Err(why)) => format!("{} mounted, {why}", &id.as_str()[..1]),
        Observation::Init(id, pid) => format!("{} init {pid}", &id.as_str()[..1]),
        Observation::Removed(id) => format!("{} gone", &id.as_str()[..1]),
        Observation::Unreadable(id, _) => format!("{} unreadable", &id.as_str()[..1]),
    }
}

fn words(observations: &[Observation]) -> Vec<String> {
    observations.iter().map(word).collect()
}

/// Waits for the expected number of observations.
async fn observe(bundles: &mut Bundles, expected: &[&str]) {
    let mut all = Vec::new();
    while all.len() < expected.len() {
        let long = Duration::from_secs(30);
        let observations = timeout(long, bundles.next()).await;
        let observations = observations.unwrap_or_else(|_| panic!("{all:?}, then nothing"));
        all.extend(words(&observations.unwrap()));
    }
    assert_eq!(all, expected);
}

/// Asserts that no observation is available. Cancelling the wait loses no later one.
async fn quiet(bundles: &mut Bundles) {
    let mut next = Box::pin(bundles.next());
    // The first pass reads queued events; a later one follows a poll of the event loop.
    for _ in 0..3 {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(
                next.as_mut()
                    .poll(context)
                    .map(|observations| words(&observations.unwrap())),
            )
        });
        let polled = polled.await;
        assert!(polled.is_pending(), "{polled:?}");
        tokio::task::yield_now().await;
    }
}

/// Creates a bundle with a complete configuration.
fn make(dir: &Path, name: &str) -> PathBuf {
    let bundle = dir.join(name);
    fs::create_dir_all(&bundle).unwrap();
    fs::write(bundle.join("config.json"), config("app")).unwrap();
    bundle
}

fn start(bundle: &Path, pid: &str) {
    fs::write(bundle.join(".init.pid"), pid).unwrap();
    fs::rename(bundle.join(".init.pid"), bundle.join("init.pid")).unwrap();
}

#[test]
fn from_the_directory_to_the_first_process() {
    inside_loop(|dir| async move {
        let tasks = dir.join("run/tasks/k8s.io");
        let mut bundles = Bundles::open(&tasks).unwrap();
        quiet(&mut bundles).await;
        fs::create_dir_all(dir.join("run/tasks")).unwrap();
        quiet(&mut bundles).await;
        let bundle = tasks.join(ONE);
        fs::create_dir_all(&bundle).unwrap();
        fs::create_dir(tasks.join(".hidden")).unwrap();
        quiet(&mut bundles).await;
        // The test writes it in three parts, as a runtime may do.
        let text = config("app");
        let file = bundle.join("config.json");
        for part in ["", &text[..40]] {
            fs::write(&file, part).unwrap();
            quiet(&mut bundles).await;
        }
        fs::write(&file, &text).unwrap();
        observe(&mut bundles, &["1 made app"]).await;
        assert!(bundles.follow(&id(ONE)).unwrap().is_empty());
        fs::create_dir(bundle.join("rootfs")).unwrap();
        tmpfs(&dir.join("elsewhere"), MsFlags::empty());
        quiet(&mut bundles).await;
        overlay(&dir, &bundle.join("rootfs"));
        observe(&mut bundles, &["1 mounted"]).await;
        drop(bundles.root(&id(ONE)).unwrap());
        fs::write(bundle.join("log.json"), "").unwrap();
        quiet(&mut bundles).await;
        start(&bundle, "4711");
        observe(&mut bundles, &["1 init 4711"]).await;
        start(&bundle, "4712");
        quiet(&mut bundles).await;
        unmount(&bundle.join("rootfs"));
        fs::remove_dir_all(&bundle).unwrap();
        observe(&mut bundles, &["1 gone"]).await;
    });
}

#[test]
fn followed_late_and_forgotten() {
    inside_loop(|dir| async move {
        let mut bundles = Bundles::open(&dir).unwrap();
        let (one, two) = (make(&dir, ONE), make(&dir, TWO));
        observe(&mut bundles, &["1 made app", "2 made app"]).await;
        overlay(&dir.join("layers"), &one.join("rootfs"));
        start(&one, "4711");
        quiet(&mut bundles).await;
        let observations = bundles.follow(&id(ONE)).unwrap();
        assert_eq!(words(&observations), ["1 mounted", "1 init 4711"]);
        assert!(bundles.follow(&id(TWO)).unwrap().is_empty());
        bundles.forget(&id(TWO));
        tmpfs(&two.join("rootfs"), MsFlags::empty());
        start(&two, "4712");
        quiet(&mut bundles).await;
        let observations = bundles.follow(&id(TWO)).unwrap();
        assert_eq!(
            words(&observations),
            ["2 mounted, file system type 0x1021994", "2 init 4712"]
        );
        unmount(&two.join("rootfs"));
        fs::remove_dir_all(&two).unwrap();
        // The removal is reported once.
        let observations = bundles.follow(&id(TWO)).unwrap();
        assert_eq!(words(&observations), ["2 gone"]);
        quiet(&mut bundles).await;
        assert_eq!(words(&bundles.follow(&id(TWO)).unwrap()), ["2 gone"]);
    });
}

#[test]
fn those_that_were_being_started_at_the_beginning() {
    inside_loop(|dir| async move {
        let (one, two) = (make(&dir, ONE), make(&dir, TWO));
        start(&two, "4712");
        let three = dir.join("3333333333333333");
        fs::create_dir(&three).unwrap();
        let mut bundles = Bundles::open(&dir).unwrap();
        quiet(&mut bundles).await;
        assert_eq!(words(&bundles.unstarted().unwrap()), ["1 made app"]);
        assert!(bundles.unstarted().unwrap().is_empty());
        fs::write(three.join("config.json"), config("late")).unwrap();
        observe(&mut bundles, &["3 made late"]).await;
        for bundle in [&one, &two, &three] {
            fs::remove_dir_all(bundle).unwrap();
        }
        observe(&mut bundles, &["1 gone", "3 gone"]).await;
    });
}

#[test]
fn what_is_no_bundle() {
    inside_loop(|dir| async move {
        let tasks = dir.join("tasks");
        fs::create_dir(&tasks).unwrap();
        let mut bundles = Bundles::open(&tasks).unwrap();
        let good = make(&dir, "elsewhere");
        // The bundle or its configuration is a link, or the configuration is not a regular file.
        symlink(&good, tasks.join(ONE)).unwrap();
        observe(&mut bundles, &["1 unreadable"]).await;
        assert!(bundles.directory(&id(ONE)).is_err());
        let bundle = tasks.join(TWO);
        fs::create_dir(&bundle).unwrap();
        let file = bundle.join("config.json");
        symlink(good.join("config.json"), bundle.join("new")).unwrap();
        fs::rename(bundle.join("new"), &file).unwrap();
        observe(&mut bundles, &["2 unreadable"]).await;
        mkfifo(&bundle.join("new"), Mode::from_bits_truncate(0o600)).unwrap();
        fs::rename(bundle.join("new"), &file).unwrap();
        observe(&mut bundles, &["2 unreadable"]).await;
        // The text is not JSON, too long, or of another format. Each error is reported once.
        for text in ["garbage".to_owned(), " ".repeat(10 << 20), "{}".to_owned()] {
            for _ in 0..2 {
                fs::write(bundle.join("new"), &text).unwrap();
                fs::rename(bundle.join("new"), &file).unwrap();
            }
            observe(&mut bundles, &["2 unreadable"]).await;
            quiet(&mut bundles).await;
        }
        fs::write(&file, config("app")).unwrap();
        observe(&mut bundles, &["2 made app"]).await;
        bundles.follow(&id(TWO)).unwrap();
        // The mount of a root file system behind a link is never reported.
        overlay(&dir, &dir.join("root"));
        symlink(dir.join("root"), bundle.join("rootfs")).unwrap();
        tmpfs(&dir.join("other"), MsFlags::empty());
        fs::write(bundle.join("init.pid"), "-3").unwrap();
        fs::write(bundle.join("init.pid"), "1 2").unwrap();
        quiet(&mut bundles).await;
    });
}

#[test]
fn directory_that_is_replaced() {
    inside_loop(|dir| async move {
        let tasks = dir.join("tasks");
        fs::create_dir(&tasks).unwrap();
        let mut bundles = Bundles::open(&tasks).unwrap();
        make(&tasks, ONE);
        observe(&mut bundles, &["1 made app"]).await;
        fs::remove_dir_all(&tasks).unwrap();
        observe(&mut bundles, &["1 gone"]).await;
        make(&tasks, TWO);
        observe(&mut bundles, &["2 made app"]).await;
        fs::rename(&tasks, dir.join("old")).unwrap();
        observe(&mut bundles, &["2 gone"]).await;
        // The renamed directory is no longer watched.
        make(&dir.join("old"), ONE);
        quiet(&mut bundles).await;
        // A mount over the directory is not reported, but its end is.
        tmpfs(&tasks, MsFlags::empty());
        make(&tasks, ONE);
        observe(&mut bundles, &["1 made app"]).await;
        unmount(&tasks);
        observe(&mut bundles, &["1 gone"]).await;
        make(&tasks, TWO);
        observe(&mut bundles, &["2 made app"]).await;
    });
}

#[test]
fn more_events_than_the_kernel_keeps() {
    inside_loop(|dir| async move {
        let mut bundles = Bundles::open(&dir).unwrap();
        let one = make(&dir, ONE);
        observe(&mut bundles, &["1 made app"]).await;
        bundles.follow(&id(ONE)).unwrap();
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        for _ in 0..most.trim().parse::<u32>().unwrap() {
            fs::create_dir(dir.join("other")).unwrap();
            fs::remove_dir(dir.join("other")).unwrap();
        }
        make(&dir, TWO);
        start(&one, "4711");
        observe(&mut bundles, &["1 init 4711", "2 made app"]).await;
        fs::remove_dir_all(&one).unwrap();
        observe(&mut bundles, &["1 gone"]).await;
    });
}
