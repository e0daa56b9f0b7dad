//! Every file of the fuzz targets' corpus, whole, cut off and with single bytes changed, goes through its decoder.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../fuzz/decoders.rs"]
mod decoders;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn names(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz")
        .join(folder);
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| stem(entry.unwrap().path())).collect()
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
    assert_eq!(names("fuzz_targets"), names("corpus"));
}

#[test]
fn corpus_is_decoded() {
    for target in names("fuzz_targets") {
        for (path, bytes) in inputs(&target) {
            eprintln!("{}", path.display());
            decoders::decode(&target, &bytes);
        }
    }
}

#[test]
fn cut_and_changed_corpus_is_decoded_or_refused() {
    for target in names("fuzz_targets") {
        for (path, bytes) in inputs(&target) {
            eprintln!("{}", path.display());
            for length in 0..bytes.len() {
                decoders::decode(&target, &bytes[..length]);
            }
            let mut bytes = bytes;
            for at in 0..bytes.len() {
                let right = bytes[at];
                for wrong in [0, 0xff, right ^ 1, right.wrapping_add(4)] {
                    bytes[at] = wrong;
                    decoders::decode(&target, &bytes);
                }
                bytes[at] = right;
            }
        }
    }
}
