//! On plain directories: inotify does not ask what file system it is.

use std::fs;

use usher_core::metric::value::Unseen;

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
async fn what_is_there_and_what_comes() {
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
async fn the_tree_may_come_later() {
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
async fn lost_events_are_made_up_for() {
    let scratch = Scratch::new("overflow");
    let pod = format!("kubepods/pod{UID}");
    scratch.make(&format!("{pod}/{}", id("aa")));
    let (mut tree, _, _) = Tree::open(&scratch.0).unwrap();
    fs::remove_dir(scratch.0.join(&pod).join(id("aa"))).unwrap();
    scratch.make(&format!("{pod}/{}", id("bb")));
    let mut told = Told::default();
    tree.list_again(&mut told);
    assert_eq!(text(&told.changes), ["-aa", "+bb"]);
    // The events themselves come after that, and tell nothing new.
    let (changes, _) = tree.drain().unwrap();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn no_tree_is_an_error_that_names_the_place() {
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
/// Tells this test that it is in there.
const ALONE: &str = "USHER_TEST_USERS";
/// How many watches those of the user namespace may have.
const WATCHES: &str = "/proc/sys/user/max_inotify_watches";

/// In a user namespace of its own, whose limit is nobody else's
/// ([namespaces(7)](https://man7.org/linux/man-pages/man7/namespaces.7.html), "The /proc/sys/user directory").
#[test]
fn without_watches_it_is_looked_at_again() {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let seen = async { tokio::time::timeout(PATIENCE, few_watches()).await };
        return runtime.block_on(seen).unwrap();
    }
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "pods::cgroup::tests::without_watches_it_is_looked_at_again",
        ])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn few_watches() {
    let scratch = Scratch::new("few");
    let pod = format!("kubepods/besteffort/pod{UID}");
    scratch.make(&pod);
    // The root, kubepods and the class.
    fs::write(WATCHES, "3").unwrap();
    let (mut tree, changes, errors) = Tree::open(&scratch.0).unwrap();
    assert_eq!(text(&changes), ["+pod"]);
    let [error @ Error::Watch { path, .. }] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!(
        (error.kind(), path),
        (Unseen::InotifyWatch, &scratch.0.join(&pod))
    );
    // Nothing tells of it, and it is found.
    scratch.make(&format!("{pod}/{}", id("aa")));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+aa".to_owned()], 0));
    fs::remove_dir(scratch.0.join(&pod).join(id("aa"))).unwrap();
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["-aa"]);
    // Who needs to know it now does not wait for the next look.
    scratch.make(&format!("{pod}/{}", id("dd")));
    let (changes, _) = tree.settle().unwrap();
    assert_eq!(text(&changes), ["+dd"]);
    assert!(tree.is_whole());
    // With watches again it is as ever.
    fs::write(WATCHES, "64").unwrap();
    scratch.make(&format!("{pod}/{}", id("bb")));
    let (changes, errors) = tree.changed().await.unwrap();
    assert_eq!((text(&changes), errors.len()), (vec!["+bb".to_owned()], 0));
    assert!(tree.again.is_none());
    scratch.make(&format!("{pod}/{}", id("cc")));
    let (changes, _) = tree.changed().await.unwrap();
    assert_eq!(text(&changes), ["+cc"]);
}

/// What cannot be listed is not gone.
#[tokio::test(flavor = "current_thread")]
async fn without_descriptors_nothing_is_gone() {
    let scratch = Scratch::new("listless");
    let (root, away) = (scratch.0.join("root"), scratch.0.join("away"));
    scratch.make(&format!("root/kubepods/besteffort/pod{UID}/{}", id("aa")));
    let (mut tree, changes, _) = Tree::open(&root).unwrap();
    assert_eq!(text(&changes), ["+pod", "+aa"]);
    // A link to itself cannot be listed, as nothing can without descriptors.
    fs::rename(&root, &away).unwrap();
    std::os::unix::fs::symlink(&root, &root).unwrap();
    let mut told = Told::default();
    tree.list_again(&mut told);
    assert_eq!(text(&told.changes), Vec::<String>::new());
    tree.look_again_after(&told);
    assert!(!tree.is_whole());
    fs::remove_file(&root).unwrap();
    fs::rename(&away, &root).unwrap();
    let (changes, errors) = tree.settle().unwrap();
    assert_eq!((text(&changes), errors.len()), (Vec::new(), 0));
    assert!(tree.is_whole());
}
