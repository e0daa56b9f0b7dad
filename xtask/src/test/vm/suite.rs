//! Test programs that cargo has built. A guest runs them by their paths on the machine.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Message, TargetKind};
use usher_cluster::progress::output;

use crate::{
    test,
    workspace::{cargo, target_dir},
};

/// The features of the kernel, as `usher check` probes them.
pub(super) const PROBE: &str = "check";

#[derive(Debug, Clone)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) command: Vec<String>,
}

/// Builds all programs. Returns the suites of these names.
pub(super) fn build(names: &[String]) -> Result<Vec<Suite>> {
    test::build()?;
    let programs = programs()?;
    let usher = target_dir().join("debug/usher").display().to_string();
    let mut suites = vec![Suite {
        name: PROBE.to_owned(),
        command: [usher.as_str(), "check", "--pre", "--color=never"]
            .map(str::to_owned)
            .into(),
    }];
    for name in names {
        let Some(program) = programs.get(name) else {
            bail!("unknown suite {name}");
        };
        // The guest is many times slower than the machine: two threads are enough for its two processors.
        let words = [program.display().to_string(), "--test-threads=2".to_owned()];
        suites.push(Suite {
            name: name.clone(),
            command: words.into(),
        });
    }
    Ok(suites)
}

/// The test programs by the names of their suites; the library of sys is `sys`.
fn programs() -> Result<BTreeMap<String, PathBuf>> {
    let build = "test --workspace --no-run --message-format=json";
    let built = output(&mut cargo(build.split(' ')))?;
    let mut programs = BTreeMap::new();
    for message in Message::parse_stream(built.as_bytes()) {
        let Message::CompilerArtifact(artifact) = message.context("read cargo's output")? else {
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
        if programs.insert(name.clone(), program.into()).is_some() {
            bail!("two suites have the name {name}");
        }
    }
    Ok(programs)
}

/// The name of a suite: its target, after the folder of the package unless that is `tests`.
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
    fn targets_of_one_name_have_different_suites() {
        let name = |manifest: &str| name(Path::new(manifest), "hold");
        assert_eq!(name("/usher/tests/Cargo.toml"), "hold");
        assert_eq!(name("/usher/agent/sys/Cargo.toml"), "sys-hold");
    }
}
