//! Files of the node and data of `/proc` in a sysdump.

use std::time::Duration;

use super::super::text::*;
use crate::data_source::node::fixture::{Fixture, OTHER, UID};

fn collection(node: &Node) -> Collection {
    Collection::new(7, 1 << 20, Duration::from_secs(60), node)
}

#[test]
fn reused_pids_are_omitted() {
    let fixture = Fixture::new(&[41, 42]);
    fixture.process(
        41,
        OTHER,
        &[("comm", "theirs\n"), ("cmdline", "their\0secret\0")],
    );
    fixture.process(42, UID, &[("comm", "app\n"), ("cmdline", "/app\0-v\0")]);
    let processes = processes(&fixture.node, &fixture.target).items;
    assert_eq!(processes.len(), 1, "{processes:?}");
    assert_eq!(processes[0].pid, 42);
    assert_eq!(processes[0].argv, ["/app", "-v"]);
}

#[test]
fn files_with_the_same_name_are_numbered() {
    let fixture = Fixture::new(&[]);
    let mut collection = collection(&fixture.node);
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    for (number, folder) in folders.iter().enumerate() {
        // A file that is not JSON is stored as text.
        let text = if number == 2 {
            "{".to_owned()
        } else {
            number.to_string()
        };
        fs::write(folder.path().join("10-net.conflist"), text).unwrap();
        configurations(folder.path(), &mut collection);
    }
    let collected = collection.finish();
    let listed = collected.manifest.files.iter();
    let listed: Vec<(&str, &Path)> = listed
        .map(|file| (&file.path[..], Path::new(&file.source)))
        .collect();
    let sources = folders
        .each_ref()
        .map(|folder| folder.path().join("10-net.conflist"));
    assert_eq!(
        listed,
        [
            ("cni/10-net-2.conflist", sources[1].as_path()),
            ("cni/10-net-3.conflist", &sources[2]),
            ("cni/10-net.conflist", &sources[0]),
        ]
    );
    assert_eq!(collected.files().count(), 4);
}
