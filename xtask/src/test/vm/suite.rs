//! What is run in a guest: test programs as cargo has built them, by the machine's own paths.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Message, TargetKind};

use crate::{
    test::build,
    workspace::{cargo, target_dir},
};

/// The suites: what the kernel has to do with, and nothing that is about time.
pub(super) const SUITES: [&str; 10] = [
    "sys",
    "sys-hold",
    "sys-start",
    "synthetic",
    "faults",
    "hold",
    "start",
    "sidecars",
    "places",
    "leaks",
];
/// What the node's kernel can do, as `usher` finds out by doing.
pub(super) const PROBE: &str = "check";

/// One program.
#[derive(Debug, Clone)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) command: Vec<String>,
}

/// Builds all programs, and gives those of these names, to run the tests that have one of `parts` in theirs or all.
pub(super) fn built(names: &[String], parts: &[String]) -> Result<Vec<Suite>> {
    build()?;
    let programs = programs()?;
    let mut suites = vec![Suite {
        name: PROBE.to_owned(),
        command: probe(),
    }];
    for name in names {
        let Some(program) = programs.get(name) else {
            bail!("no suite {name}; there are: {}", SUITES.join(" "));
        };
        // The guest is many times slower than the machine: two at once are enough for its two processors.
        let words = [program.display().to_string(), "--test-threads=2".to_owned()];
        suites.push(Suite {
            name: name.clone(),
            command: words.into_iter().chain(parts.iter().cloned()).collect(),
        });
    }
    Ok(suites)
}

/// The command that is the probe.
pub(super) fn probe() -> Vec<String> {
    let usher = target_dir().join("debug/usher").display().to_string();
    let words = ["check", "--pre", "-o", "json"].map(str::to_owned);
    [usher].into_iter().chain(words).collect()
}

/// The test programs by their names; the library of sys is `sys`.
fn programs() -> Result<BTreeMap<String, PathBuf>> {
    let mut build = cargo(["test", "--workspace", "--no-run", "--message-format=json"]);
    let built = build.output().context("build the tests")?;
    if !built.status.success() {
        bail!("the tests cannot be built: {}", built.status);
    }
    let mut programs = BTreeMap::new();
    for message in Message::parse_stream(built.stdout.as_slice()) {
        let Message::CompilerArtifact(artifact) = message.context("read what cargo says")? else {
            continue;
        };
        let Some(program) = artifact.executable.filter(|_| artifact.profile.test) else {
            continue;
        };
        let name = match artifact.target.name.as_str() {
            "usher_sys" => "sys".to_owned(),
            other if artifact.target.is_kind(TargetKind::Test) => {
                name(artifact.manifest_path.as_std_path(), other)
            }
            _ => continue,
        };
        let program = program.into_std_path_buf();
        if let Some(other) = programs.insert(name.clone(), program.clone()) {
            bail!(
                "two suites are called {name}: {} and {}",
                other.display(),
                program.display()
            );
        }
    }
    Ok(programs)
}

/// That of the target, after the folder of its package where that is not `tests`.
fn name(manifest: &Path, target: &str) -> String {
    let folder = manifest.parent().and_then(Path::file_name);
    match folder.map(|folder| folder.display().to_string()) {
        Some(folder) if folder != "tests" => format!("{folder}-{target}"),
        _ => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_one_name_are_told_apart() {
        let name = |manifest: &str| name(Path::new(manifest), "hold");
        assert_eq!(name("/usher/tests/Cargo.toml"), "hold");
        assert_eq!(name("/usher/agent/sys/Cargo.toml"), "sys-hold");
    }
}
