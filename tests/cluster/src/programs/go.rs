//! Programs built from the Go module proxy, with the versions in `programs/*/go.mod` and `go.sum`.
//!
//! All are static and reproducible (`CGO_ENABLED=0`, `-trimpath`, no build id of a version control). Go's own
//! caches stay in the user's directories, so a rebuild after a small change takes seconds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::sources;
use crate::{
    cache::{self, Key, KeyBuilder},
    progress::{output, run_logged, say},
};

/// Without symbols and debug information: these programs are not debugged.
const STRIPPED: [&str; 2] = ["-ldflags", "-s -w"];

/// Dapr's sidecar with its stable components, which stamps no version. Without any set of components it panics.
pub(super) fn daprd() -> Result<PathBuf> {
    let args = ["-tags", "stablecomponents", "-ldflags", "-s -w"];
    let note = "Building Dapr's daprd from source: about 3 minutes on two cores, once";
    tool("daprd", "github.com/dapr/dapr/cmd/daprd", &args, note)
}

pub(super) fn cloud_sql_proxy() -> Result<PathBuf> {
    let package = "github.com/GoogleCloudPlatform/cloud-sql-proxy/v2";
    let note = "Building the Cloud SQL proxy from source: about half a minute on two cores, once";
    tool("cloud-sql-proxy", package, &STRIPPED, note)
}

/// Helm, which renders, packs and installs the chart.
pub fn helm() -> Result<PathBuf> {
    let note = "Building Helm from source: about 2 minutes on two cores, once";
    tool("helm", "helm.sh/helm/v4/cmd/helm", &STRIPPED, note)
}

/// The chart's own tests use this one. It renders as Helm 3 does, which many users still have.
pub fn helm_unittest() -> Result<PathBuf> {
    let package = "github.com/helm-unittest/helm-unittest/cmd/helm-unittest";
    let note = "Building helm-unittest from source: about a minute on two cores, once";
    tool("helm-unittest", package, &STRIPPED, note)
}

/// Checks objects against the schemas of an API server.
pub fn kubeconform() -> Result<PathBuf> {
    let package = "github.com/yannh/kubeconform/cmd/kubeconform";
    let note = "Building kubeconform from source: half a minute on two cores, once";
    tool("kubeconform", package, &STRIPPED, note)
}

/// Checks workflows of GitHub Actions.
pub fn actionlint() -> Result<PathBuf> {
    let package = "github.com/rhysd/actionlint/cmd/actionlint";
    let note = "Building actionlint from source: some seconds, once";
    tool("actionlint", package, &STRIPPED, note)
}

/// The CNI project's own test programs: one that calls plugins as a runtime does, and the plugins of
/// two networks. All in one directory, which is a `CNI_PATH`.
pub fn cni_reference() -> Result<PathBuf> {
    let name = "cnitool";
    let source = sources().join(name);
    let args = STRIPPED.map(str::to_owned);
    cache::entry(name, &key(&source, &args)?, |dir| {
        say("Building cnitool and the reference plugins from source: a few seconds, once");
        build_into(name, &source, &args, "tool", dir)
    })
}

/// A program that is a module's own command and needs no other files.
fn tool(name: &str, package: &str, args: &[&str], note: &str) -> Result<PathBuf> {
    let source = sources().join(name);
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    let entry = cache::entry(name, &key(&source, &args)?, |dir| {
        say(note);
        build(name, &source, &args, package, dir)
    })?;
    Ok(entry.join(name))
}

/// The version of a module that is built from a source folder.
pub(super) fn version(source: &Path, module: &str) -> Result<String> {
    let go_mod = source.join("go.mod");
    let text = fs::read_to_string(&go_mod).with_context(|| format!("read {}", go_mod.display()))?;
    let version = required(&text, module)
        .with_context(|| format!("{} does not require {module}", go_mod.display()))?;
    Ok(version.to_owned())
}

/// The version that a go.mod requires of a module.
fn required<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line
            .split_whitespace()
            .skip_while(|word| *word == "require");
        (words.next() == Some(module))
            .then(|| words.next())
            .flatten()
            .filter(|version| version.starts_with('v'))
    })
}

/// Hashes the module files, the sources, the flags and the compiler's version.
pub(super) fn key(source: &Path, args: &[String]) -> Result<Key> {
    let go_version = output(Command::new("go").arg("version"))
        .context("no usable Go: install Go 1.26 or later")?;
    let mut files: Vec<PathBuf> = Vec::new();
    for file in fs::read_dir(source).with_context(|| format!("list {}", source.display()))? {
        let path = file
            .with_context(|| format!("list {}", source.display()))?
            .path();
        if path
            .extension()
            .is_some_and(|extension| ["go", "mod", "sum"].iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    files.sort();
    let key = KeyBuilder::default()
        .input("flags", args.join("\n").as_bytes())
        .input("go", go_version.as_bytes());
    Ok(files
        .iter()
        .try_fold(key, |key, file| key.file(file))?
        .finish())
}

pub(super) fn go(source: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(source)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false")
        .env("GOWORK", "off");
    go
}

pub(super) fn build(
    name: &str,
    source: &Path,
    args: &[String],
    package: &str,
    dir: &Path,
) -> Result<()> {
    build_into(name, source, args, package, &dir.join(name))
}

/// Builds into a file, or each program into an existing directory.
pub(super) fn build_into(
    name: &str,
    source: &Path,
    args: &[String],
    packages: &str,
    output: &Path,
) -> Result<()> {
    let log = cache::root()?.join(format!("{name}.log"));
    let mut command = go(source);
    command
        .args(["build", "-trimpath"])
        .args(args)
        .arg("-o")
        .arg(output)
        .arg(packages);
    run_logged(name, &mut command, &log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_requirements_not_from_replacements() {
        let go_mod = "module x\nrequire (\n\tk8s.io/kubernetes v1.36.3\n\tk8s.io/api v0.0.0\n)\n\
                      replace k8s.io/api => k8s.io/api v0.36.3\n";
        assert_eq!(required(go_mod, "k8s.io/kubernetes"), Some("v1.36.3"));
        assert_eq!(
            required("require k8s.io/kubernetes v1.35.4\n", "k8s.io/kubernetes"),
            Some("v1.35.4")
        );
        assert_eq!(required(go_mod, "k8s.io/kubelet"), None);
    }
}
