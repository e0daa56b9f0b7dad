//! The fuzzed program: `tests/fuzz` with a counter in every branch.
//!
//! libFuzzer ([LLVM's documentation](https://llvm.org/docs/LibFuzzer.html)) needs the counters and the operands of
//! comparisons. The stable compiler has the pass of LLVM that adds them
//! ([SanitizerCoverage](https://clang.llvm.org/docs/SanitizerCoverage.html)), but no memory sanitizer; `unsafe` is in few
//! places of `agent/sys`, and none of them decodes anything. libfuzzer-sys builds libFuzzer itself, which is C++.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use usher_cluster::{
    programs,
    progress::{run_logged, say},
};

use crate::workspace::{cargo, root};

/// The compiler that the `cc` crate runs, and its Debian package.
const COMPILER: (&str, &str) = ("c++", "g++");

const FLAGS: [&str; 6] = [
    // The cfg that libfuzzer-sys defines by convention.
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    // Counts every edge.
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Finds or installs a C++ compiler.
pub(in crate::test) fn has_compiler() -> Result<()> {
    let (program, package) = COMPILER;
    programs::ensure_package(program, package).map(drop)
}

pub(super) fn program(folder: &Path) -> Result<PathBuf> {
    has_compiler().context("libFuzzer needs a C++ compiler")?;
    let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let built = folder.join("build");
    say("Building the fuzz targets: a minute or two the first time");
    let mut build = cargo(["build", "--release", "--locked", "--target", &host]);
    build
        .current_dir(root().join("tests/fuzz"))
        // With a named target, the flags do not apply to build scripts and macros.
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .env("CARGO_TARGET_DIR", &built);
    run_logged("fuzz targets", &mut build, &folder.join("build.log"))?;
    Ok(built.join(host).join("release/usher-fuzz"))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    /// Name and version of each package of a lock file.
    fn packages(lock: &str) -> BTreeSet<(String, String)> {
        let text = fs::read_to_string(root().join(lock)).unwrap();
        let value = |line: Option<&str>, key: &str| {
            let value = line.unwrap().strip_prefix(key).unwrap();
            value.trim_matches('"').to_owned()
        };
        let package = |package: &str| {
            let mut lines = package.trim_start().lines();
            let name = value(lines.next(), "name = ");
            (name, value(lines.next(), "version = "))
        };
        text.split("[[package]]").skip(1).map(package).collect()
    }

    #[test]
    fn all_packages_but_the_fuzzer_are_the_released_ones() {
        let own = packages("tests/fuzz/Cargo.lock");
        let shipped = packages("Cargo.lock");
        let only_here: Vec<&str> = own.difference(&shipped).map(|(name, _)| &**name).collect();
        let expected = ["arbitrary", "jobserver", "libfuzzer-sys", "usher-fuzz"];
        assert_eq!(only_here, expected);
    }
}
