//! On plain directories: inotify does not ask what file system it is.

use super::*;

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
