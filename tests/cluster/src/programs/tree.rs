//! Debian packages, unpacked into the cache.
//!
//! They are not installed: some would start services of their own, and nothing else of the machine may change.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    cache::{self, KeyBuilder},
    progress::{output, run_logged, say},
};

/// The parts of a package to download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// Only the package.
    Alone,
    /// With dependencies that the machine does not have.
    WithDependencies,
}

/// The directory with these unpacked packages, downloaded on first use. `size` is printed for the user.
pub(super) fn tree(name: &str, packages: &[&str], fetch: Fetch, size: &str) -> Result<PathBuf> {
    cache::entry(name, &KeyBuilder::default().finish(), |dir| {
        say(&format!(
            "Fetching from Debian: {}, {size}, once",
            packages.join(" ")
        ));
        let log = cache::root()?.join(format!("{name}.log"));
        let archives = dir.join("archives");
        fs::create_dir_all(archives.join("partial")).context("make room for packages")?;
        let mut download = download(packages, fetch, &archives);
        if run_logged("apt-get", &mut download, &log).is_err() {
            // The package lists may be missing.
            let mut update = Command::new("apt-get");
            run_logged("apt-get update", update.arg("update"), &log)?;
            run_logged("apt-get", &mut download, &log)?;
        }
        let fetched = fs::read_dir(&archives).context("list what was fetched")?;
        for package in fetched.flatten().map(|file| file.path()) {
            if package.extension().is_some_and(|end| end == "deb") {
                output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(dir))?;
            }
        }
        fs::remove_dir_all(&archives).context("remove the packages")
    })
}

fn download(packages: &[&str], fetch: Fetch, archives: &Path) -> Command {
    let mut command = Command::new("apt-get");
    match fetch {
        Fetch::Alone => {
            command.arg("download").current_dir(archives);
        }
        Fetch::WithDependencies => {
            let cache = format!("Dir::Cache::archives={}", archives.display());
            command.args(["install", "--download-only", "--yes"]);
            command.args(["--no-install-recommends", "-o", &cache]);
            // Nothing is installed, and another apt-get may run.
            command.args(["-o", "Debug::NoLocking=1"]);
        }
    }
    command.args(packages);
    command
}

/// A program of such a directory, with the libraries there.
pub(super) fn program(tree: &Path, path: &str) -> Command {
    let mut command = Command::new(tree.join(path));
    let libraries = format!("usr/lib/{}-linux-gnu", env::consts::ARCH);
    command.env("LD_LIBRARY_PATH", tree.join(libraries));
    command
}
