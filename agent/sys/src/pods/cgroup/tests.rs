//! These tests use plain directories, because inotify works on every file system.

use std::fs;

use usher_core::metric::value::DiscoveryOperation;

use super::super::cgroup::*;

const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("usher-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn make(&self, path: &str) {
        fs::create_dir_all(self.0.join(path)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn id(digits: &str) -> String {
    digits.repeat(32)
}

fn text(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| match change {
            Change::PodAppeared(_) => "+pod".to_owned(),
            Change::PodGone(_) => "-pod".to_owned(),
            Change::ContainerAppeared(key, _) => format!("+{}", &key.id.as_str()[..2]),
            Change::ContainerGone(key) => format!("-{}", &key.id.as_str()[..2]),
        })
        .collect()
}

#[tokio::test(flavor = "current_thread")]
async fn existing_and_new_directories_are_reported() {
    let scratch = Scratch::new("tree");
    let pod = format!("kubepods/besteffort/pod{UID}");
    scratch.make(&format!("{pod}/{}", id("aa")));
    scratch.make("system.slice/foreign");
    scratch.make("kubepods/podcast");
    let (mut tree, changes, errors) = Tree::open(&scratch.0).unwrap();
    assert!(errors.is_empty());
    assert_eq!(text(&changes), ["+pod", "+aa"]);

    scratch.make(&format!("{pod}/{}", id("bb")));
    scratch.make(&format!("{pod}/not-a-container"));
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["+bb"]);

    fs::remove_dir(scratch.0.join(&pod).join(id("aa"))).unwrap();
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["-aa"]);

    fs::remove_dir_all(scratch.0.join(&pod)).unwrap();
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["-bb", "-pod"]);
}

#[tokio::test(flavor = "current_thread")]
async fn kubepods_may_be_created_later() {
    let scratch = Scratch::new("later");
    let (mut tree, changes, _) = Tree::open(&scratch.0).unwrap();
    assert!(changes.is_empty());
    let uid = UID.replace('-', "_");
    scratch.make(&format!(
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{}.scope",
        id("cc")
    ));
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["+pod", "+cc"]);
}

#[tokio::test(flavor = "current_thread")]
async fn relist_compensates_for_lost_events() {
    let scratch = Scratch::new("overflow");
    let pod = format!("kubepods/pod{UID}");
    scratch.make(&format!("{pod}/{}", id("aa")));
    let (mut tree, _, _) = Tree::open(&scratch.0).unwrap();
    fs::remove_dir(scratch.0.join(&pod).join(id("aa"))).unwrap();
    scratch.make(&format!("{pod}/{}", id("bb")));
    let mut update = Update::default();
    tree.list_all(&mut update);
    assert_eq!(text(&update.changes), ["-aa", "+bb"]);
    // The events arrive afterwards, and report nothing new.
    let (changes, _) = tree.drain().unwrap();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn missing_tree_is_an_error_with_its_path() {
    let scratch = Scratch::new("nothing");
    let error = locate(&scratch.0).unwrap_err().to_string();
    assert!(error.contains("usher-nothing"), "{error}");
    scratch.make("unified/kubepods");
    scratch.make("memory");
    assert_eq!(locate(&scratch.0).unwrap(), scratch.0.join("unified"));
    scratch.make("memory/kubepods");
    assert_eq!(locate(&scratch.0).unwrap(), scratch.0.join("memory"));
}

const PATIENCE: Duration = Duration::from_secs(60);
const ALONE: &str = "USHER_TEST_USERS";
/// Limit of watches of a user namespace.
const WATCHES: &str = "/proc/sys/user/max_inotify_watches";

/// Limit of inotify instances of a user namespace.
const INSTANCES: &str = "/proc/sys/user/max_inotify_instances";

/// Runs a test in a user namespace of its own, so that its limits do not affect other tests
/// ([namespaces(7)](https://man7.org/linux/man-pages/man7/namespaces.7.html), "The /proc/sys/user directory").
fn in_user_namespace(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let test = async { tokio::time::timeout(PATIENCE, test).await };
        return runtime.block_on(test).unwrap();
    }
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("pods::cgroup::tests::{name}")])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn tree_is_listed_again_without_watches() {
    in_user_namespace("tree_is_listed_again_without_watches", async {
        no_watches().await;
        few_watches().await;
    });
}

#[test]
fn tree_is_listed_again_without_an_instance() {
    in_user_namespace("tree_is_listed_again_without_an_instance", no_instances());
}

/// An agent that starts while no instance is free finds everything all the same, and watches the tree once one is.
async fn no_instances() {
    let scratch = Scratch::new("no-instance");
    let pod = format!("kubepods/besteffort/pod{UID}");
    scratch.make(&pod);
    fs::write(INSTANCES, "0").unwrap();
    let (mut tree, changes, errors) = Tree::open(&scratch.0).unwrap();
    assert_eq!(text(&changes), ["+pod"]);
    let [error @ Error::Init(_)] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!(error.kind(), DiscoveryOperation::InotifyInit);
    assert!(tree.is_whole());
    scratch.make(&format!("{pod}/{}", id("aa")));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+aa".to_owned()], 0));
    fs::remove_dir_all(scratch.0.join(&pod)).unwrap();
    let (changes, errors) = tree.changed().await.unwrap();
    let gone = vec!["-aa".to_owned(), "-pod".to_owned()];
    assert_eq!((text(&changes), errors.len()), (gone, 0));
    // `settle` does not wait for the next listing.
    scratch.make(&pod);
    let (changes, errors) = tree.settle().unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+pod".to_owned()], 0));
    assert!(tree.relist_at.is_some());
    // What was created without a watch is found by the listing that follows the watches.
    scratch.make(&format!("{pod}/{}", id("bb")));
    fs::write(INSTANCES, "64").unwrap();
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+bb".to_owned()], 0));
    assert!(tree.relist_at.is_none());
    scratch.make(&format!("{pod}/{}", id("cc")));
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["+cc"]);
}

/// An agent that starts without any watch finds everything all the same.
async fn no_watches() {
    let scratch = Scratch::new("none");
    let pod = format!("kubepods/besteffort/pod{UID}");
    scratch.make(&pod);
    fs::write(WATCHES, "0").unwrap();
    let (mut tree, changes, errors) = Tree::open(&scratch.0).unwrap();
    assert_eq!(text(&changes), ["+pod"]);
    // For the root, kubepods, the class and the pod.
    let is_watch = |error: &Error| matches!(error, Error::Watch { .. });
    assert!(errors.len() == 4 && errors.iter().all(is_watch));
    assert!(tree.is_whole());
    scratch.make(&format!("{pod}/{}", id("aa")));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+aa".to_owned()], 0));
    // Only the directory that is new.
    let other = UID.replace('0', "1");
    scratch.make(&format!("kubepods/besteffort/pod{other}"));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((changes.len(), errors.len()), (1, 1), "{errors:?}");
    fs::write(WATCHES, "64").unwrap();
    scratch.make(&format!("{pod}/{}", id("bb")));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+bb".to_owned()], 0));
    assert!(tree.relist_at.is_none());
}

async fn few_watches() {
    let scratch = Scratch::new("few");
    let pod = format!("kubepods/besteffort/pod{UID}");
    scratch.make(&pod);
    // Watches for the root, kubepods and the class.
    fs::write(WATCHES, "3").unwrap();
    let (mut tree, changes, errors) = Tree::open(&scratch.0).unwrap();
    assert_eq!(text(&changes), ["+pod"]);
    let [error @ Error::Watch { path, .. }] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!(
        (error.kind(), path),
        (DiscoveryOperation::InotifyWatch, &scratch.0.join(&pod))
    );
    // No event reports this directory; the next listing finds it.
    scratch.make(&format!("{pod}/{}", id("aa")));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+aa".to_owned()], 0));
    fs::remove_dir(scratch.0.join(&pod).join(id("aa"))).unwrap();
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["-aa"]);
    // `settle` does not wait for the next listing.
    scratch.make(&format!("{pod}/{}", id("dd")));
    let (changes, _) = tree.settle().unwrap();
    assert_eq!(text(&changes), ["+dd"]);
    assert!(tree.is_whole());
    // Once watches are available the tree is watched again.
    fs::write(WATCHES, "64").unwrap();
    scratch.make(&format!("{pod}/{}", id("bb")));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+bb".to_owned()], 0));
    assert!(tree.relist_at.is_none());
    scratch.make(&format!("{pod}/{}", id("cc")));
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["+cc"]);
}

/// An unreadable directory does not count as removed.
#[tokio::test(flavor = "current_thread")]
async fn unreadable_directory_is_not_removed() {
    let scratch = Scratch::new("listless");
    let (root, away) = (scratch.0.join("root"), scratch.0.join("away"));
    scratch.make(&format!("root/kubepods/besteffort/pod{UID}/{}", id("aa")));
    let (mut tree, changes, _) = Tree::open(&root).unwrap();
    assert_eq!(text(&changes), ["+pod", "+aa"]);
    // A link to itself cannot be listed, like a directory when no descriptors are left.
    fs::rename(&root, &away).unwrap();
    std::os::unix::fs::symlink(&root, &root).unwrap();
    assert!(matches!(Tree::open(&root), Err(Error::List { .. })));
    let mut update = Update::default();
    tree.list_all(&mut update);
    assert_eq!(text(&update.changes), Vec::<String>::new());
    tree.schedule_relist(&update);
    assert!(!tree.is_whole());
    fs::remove_file(&root).unwrap();
    fs::rename(&away, &root).unwrap();
    let (changes, errors) = tree.settle().unwrap();
    assert_eq!((text(&changes), errors.len()), (Vec::new(), 0));
    assert!(tree.is_whole());
}

/// The event of a watch's end may be among the lost events.
#[tokio::test(flavor = "current_thread")]
async fn overflow_forgets_the_watches_of_removed_directories() {
    let scratch = Scratch::new("forgotten");
    let pod = scratch.0.join(format!("kubepods/pod{UID}"));
    scratch.make(&format!("kubepods/pod{UID}"));
    let (mut tree, _, _) = Tree::open(&scratch.0).unwrap();
    let watched = tree.watched.len();
    fs::remove_dir(&pod).unwrap();
    // Simulates lost events.
    let watches = tree.watches.as_ref().unwrap().get_ref();
    while watches.0.read_events().is_ok() {}
    let overflow = InotifyEvent {
        wd: *tree.watched.keys().next().unwrap(),
        mask: AddWatchFlags::IN_Q_OVERFLOW,
        cookie: 0,
        name: None,
    };
    let mut update = Update::default();
    tree.handle_event(&overflow, &mut update);
    assert_eq!(text(&update.changes), ["-pod"]);
    assert_eq!(tree.watched.len(), watched - 1);
}

/// The watch of the pod that changes all the time ends until the next listing; other pods are watched.
#[tokio::test(flavor = "current_thread")]
async fn busy_pod_does_not_fill_the_queue() {
    let scratch = Scratch::new("busy");
    let other = UID.replace("0d7e", "1d7e");
    let (busy, other) = (format!("kubepods/pod{UID}"), format!("kubepods/pod{other}"));
    scratch.make(&busy);
    scratch.make(&other);
    let (mut tree, _, _) = Tree::open(&scratch.0).unwrap();
    for _ in 0..100 {
        scratch.make(&format!("{busy}/{}", id("aa")));
        fs::remove_dir(scratch.0.join(&busy).join(id("aa"))).unwrap();
    }
    scratch.make(&format!("{busy}/{}", id("bb")));
    scratch.make(&format!("{other}/{}", id("cc")));
    let (changes, errors) = tree.drain().unwrap();
    let [error @ Error::Busy { path }] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!(
        (error.kind(), path),
        (DiscoveryOperation::InotifyBusy, &scratch.0.join(&busy))
    );
    let changes = text(&changes);
    assert_eq!(changes.last().map(String::as_str), Some("+cc"));
    assert!(changes.len() < 70 && !changes.contains(&"+bb".to_owned()));
    // The queue gets nothing from it, until it is watched again.
    scratch.make(&format!("{busy}/{}", id("dd")));
    assert_eq!(text(&tree.drain().unwrap().0), Vec::<String>::new());
    let (changes, errors) = tree.changed().await.unwrap();
    let mut changes = text(&changes);
    changes.sort();
    assert_eq!(
        (changes, errors.len()),
        (vec!["+bb".to_owned(), "+dd".to_owned()], 0)
    );
    scratch.make(&format!("{busy}/{}", id("ee")));
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["+ee"]);
}

#[tokio::test(flavor = "current_thread")]
async fn containers_of_a_pod_are_limited() {
    let scratch = Scratch::new("many");
    for number in 0..200 {
        scratch.make(&format!("kubepods/pod{UID}/{number:064x}"));
    }
    let (_tree, changes, errors) = Tree::open(&scratch.0).unwrap();
    assert_eq!((changes.len(), errors.len()), (1 + 128, 0));
}
