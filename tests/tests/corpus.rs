//! Every file of the fuzz targets' corpus goes through its decoder: whole, truncated and with single bytes changed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../fuzz/decoders.rs"]
mod decoders;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The maximum number of positions at which a file is truncated and changed: long files would take most of the time.
const PLACES: usize = 256;

fn targets() -> impl Iterator<Item = &'static str> {
    decoders::TARGETS.iter().map(|(name, _)| *name)
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let files = fs::read_dir(folder.join(target)).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let inputs: Vec<_> = paths
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert!(!inputs.is_empty(), "{target} has no corpus");
    inputs
}

#[test]
fn every_target_has_a_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let entries = fs::read_dir(folder).unwrap();
    let folders: BTreeSet<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(folders, targets().map(Into::into).collect());
}

/// A decoder that rejects everything would violate no assertion.
#[test]
fn corpus_is_decoded() {
    for target in targets() {
        let mut accepted = 0;
        for (path, bytes) in inputs(target) {
            eprintln!("{}", path.display());
            accepted += usize::from(decoders::decode(target, &bytes));
        }
        assert!(accepted > 0, "{target} accepts no file of its corpus");
    }
}

#[test]
fn truncated_and_mutated_corpus_is_decoded_or_rejected() {
    for target in targets() {
        for (path, bytes) in inputs(target) {
            eprintln!("{}", path.display());
            let step = bytes.len() / PLACES + 1;
            for length in (0..bytes.len()).step_by(step) {
                decoders::decode(target, &bytes[..length]);
            }
            let mut bytes = bytes;
            for at in (0..bytes.len()).step_by(step) {
                let right = bytes[at];
                for wrong in [0, 0xff, right ^ 1, right.wrapping_add(4)] {
                    bytes[at] = wrong;
                    decoders::decode(target, &bytes);
                }
                bytes[at] = right;
            }
        }
    }
}
