//! Valid and modified sysdumps.

use std::os::unix::fs::symlink;

use nix::{sys::stat::Mode, unistd::mkfifo};
use tempfile::TempDir;
use usher_core::admin::{Origin, Pods};
use usher_inspect::sysdump::manifest;

use super::super::dump::*;
use crate::global::Exit;

const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";

struct Fixture {
    folder: TempDir,
    manifest: Manifest,
}

impl Fixture {
    fn new() -> Self {
        let mut manifest = Manifest::new(7, "0.1.0");
        let container = manifest::Container {
            name: "app".to_owned(),
            id: "aabbccdd00112233".to_owned(),
            pids: vec![41],
        };
        manifest.pods.push(Pod {
            uid: UID.to_owned(),
            namespace: "shop".to_owned(),
            name: "report".to_owned(),
            ips: vec!["10.0.0.7".to_owned()],
            containers: vec![container],
            folder: path::folder("shop", "report", UID),
        });
        let folder = tempfile::tempdir().unwrap();
        Self { folder, manifest }
    }

    fn with_file(mut self, path: &str) -> Self {
        let pods = Document::new("Pods", Origin::Node, Pods::default());
        let content = serde_json::to_vec(&pods).unwrap();
        let file = self.folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, &content).unwrap();
        self.manifest.files.push(manifest::File {
            path: path.to_owned(),
            source: "usher pods".to_owned(),
            bytes: content.len() as u64,
            sha256: sha256(&content),
        });
        self
    }

    fn open(&self) -> Result<Dump, Failure> {
        let text = serde_json::to_vec(&self.manifest).unwrap();
        fs::write(self.folder.path().join(MANIFEST), text).unwrap();
        Dump::open(self.folder.path())
    }

    fn error(&self, command: &str, pod: Option<&str>) -> String {
        let dump = self.open().unwrap();
        let error = dump.report::<Pods>(command, pod).unwrap_err();
        assert_eq!(error.exit, Exit::Unavailable, "{}", error.text);
        error.text
    }
}

#[test]
fn reports_are_read_back() {
    let folder = path::folder("shop", "report", UID);
    let fixture = Fixture::new()
        .with_file("pods.json")
        .with_file(&format!("{folder}/conns.json"));
    let dump = fixture.open().unwrap();
    assert_eq!(dump.report::<Pods>("pods", None).unwrap(), Pods::default());
    for given in ["shop/report", UID, "aabbccdd", "41", "10.0.0.7", "rep"] {
        let found = dump.report::<Pods>("conns", Some(given));
        assert_eq!(found.unwrap(), Pods::default(), "{given}");
    }
    let none = dump.report::<Pods>("conns", Some("web")).unwrap_err();
    assert_eq!(none.exit, Exit::PodSelection);
    assert!(none.text.contains("shop/report"), "{}", none.text);
}

#[test]
fn missing_files_have_a_reason() {
    let mut fixture = Fixture::new();
    fixture.manifest.missing.push(manifest::Missing {
        path: "metrics.json".to_owned(),
        source: "usher metrics".to_owned(),
        why: "no agent answers".to_owned(),
    });
    assert!(
        fixture
            .error("metrics", None)
            .ends_with("is missing: no agent answers")
    );
    assert!(fixture.error("later", None).contains("does not collect it"));
}

#[test]
fn modified_files_are_rejected() {
    let fixture = Fixture::new().with_file("pods.json");
    let file = fixture.folder.path().join("pods.json");
    fs::write(&file, "{}").unwrap();
    assert!(fixture.error("pods", None).contains("checksum"));
    fs::remove_file(&file).unwrap();
    assert!(
        fixture
            .error("pods", None)
            .contains("is in the manifest, but not in the sysdump")
    );
    symlink("/proc/self/environ", &file).unwrap();
    assert!(
        fixture
            .error("pods", None)
            .contains("a symbolic link is in the path")
    );
}

#[test]
fn special_files_are_rejected() {
    let fixture = Fixture::new().with_file("pods.json");
    let file = fixture.folder.path().join("pods.json");
    fs::remove_file(&file).unwrap();
    mkfifo(&file, Mode::S_IRWXU).unwrap();
    assert!(fixture.error("pods", None).contains("not a regular file"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(fixture.error("pods", None).contains("not a regular file"));
}

#[test]
fn paths_out_of_the_sysdump_are_rejected() {
    let mut fixture = Fixture::new().with_file("pods.json");
    fixture.manifest.pods[0].folder = "../../etc".to_owned();
    fixture.manifest.files[0].path = "../../etc/conns.json".to_owned();
    assert!(
        fixture
            .error("conns", Some(UID))
            .contains("leads out of the sysdump")
    );
}

#[test]
fn other_files_are_not_sysdumps() {
    let folder = tempfile::tempdir().unwrap();
    let error = |path: &Path| Dump::open(path).unwrap_err().text;
    assert!(error(&folder.path().join("none")).contains("No such file"));
    assert!(error(folder.path()).contains("manifest.json is missing"));
    let file = folder.path().join("a.tar.gz");
    fs::write(&file, "not packed").unwrap();
    assert!(error(&file).contains("not a sysdump"), "{}", error(&file));
    let mut fixture = Fixture::new();
    fixture.manifest.api_version = "usher.dev/sysdump/v9".to_owned();
    assert!(
        fixture
            .open()
            .unwrap_err()
            .text
            .contains("unsupported sysdump version")
    );
}
