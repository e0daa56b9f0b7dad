//! The programs of this package that run inside the node and in images: built by cargo, statically, for musl.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::find;
use crate::{
    cache,
    progress::{output, run_logged, say},
};

/// Variables that cargo sets for a program that it runs. Build scripts track some of these, so they and their packages would
/// be rebuilt after each change of the caller.
const ABOUT_THE_CALLER: [&str; 4] = [
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
];

#[derive(Debug, Clone)]
pub struct OwnPrograms {
    /// Pid 1 of the node and of every pod's sandbox.
    pub pause: PathBuf,
    /// The application of test pods.
    pub app: PathBuf,
    /// runc without limits, for the v2 view of a hybrid machine.
    pub runc: PathBuf,
}

/// The static target of this machine.
fn musl_target() -> String {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
}

/// Adds a target to the toolchain when it is not there.
pub fn ensure_target(target: &str) -> Result<()> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library =
        output(Command::new(rustc).args(["--print", "target-libdir", "--target", target]))?;
    if Path::new(library.trim()).is_dir() {
        return Ok(());
    }
    let rustup =
        find("rustup").with_context(|| format!("no rustup to add the target {target} with"))?;
    say(&format!(
        "Adding the target {target} to the toolchain by rustup, once"
    ));
    let log = cache::root()?.join("rustup.log");
    run_logged(
        "rustup target add",
        Command::new(rustup).args(["target", "add", target]),
        &log,
    )
}

/// cargo as if a user had called it, not a program that cargo runs.
#[must_use]
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ABOUT_THE_CALLER
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// How the programs are built: a profile of the workspace's `Cargo.toml`.
#[derive(Debug, Clone, Copy)]
pub enum Profile {
    /// As they are released.
    Release,
    /// In a quarter of the time.
    Quick,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }
}

/// Builds a package of this workspace as static programs and returns their directory.
///
/// Cargo knows what is out of date, so it runs every time. Some packages have C code, for which any C compiler
/// of the machine suffices, because it only calls functions that musl has.
pub fn build_static(
    package: &str,
    profile: Profile,
    args: &[&str],
    target_dir: &Path,
) -> Result<PathBuf> {
    let target = musl_target();
    ensure_target(&target)?;
    let mut cargo = cargo();
    cargo
        .args([
            "build",
            "--profile",
            profile.name(),
            "--package",
            package,
            "--target",
            &target,
        ])
        .args(args)
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        // A cargo that runs this one must not decide how static programs are built.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    let compiler = format!("CC_{}", target.replace('-', "_"));
    if env::var_os(&compiler).is_none() && find("musl-gcc").is_none() {
        cargo.env(compiler, "cc");
    }
    let log = cache::root()?.join(format!("{package}.cargo.log"));
    run_logged(&format!("static {package}"), &mut cargo, &log)?;
    Ok(target_dir.join(target).join(profile.name()))
}

/// A separate target directory keeps these builds from waiting for another build of the workspace.
pub(super) fn build() -> Result<OwnPrograms> {
    let place = cache::root()?.join("cargo");
    if !place.exists() {
        say("Building the test programs: about 30 seconds, once");
    }
    let out = build_static(
        "usher-cluster",
        Profile::Quick,
        &["--bins", "--no-default-features"],
        &place,
    )?;
    let program = |name: &str| {
        let path = out.join(name);
        fs::metadata(&path).with_context(|| format!("cargo built no {}", path.display()))?;
        Ok::<_, anyhow::Error>(path)
    };
    Ok(OwnPrograms {
        pause: program("usher-test-pause")?,
        app: program("usher-test-app")?,
        runc: program("usher-test-runc")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_inherits_no_variables_of_its_caller() {
        let cargo = cargo();
        let removed = |name: &str| {
            cargo
                .get_envs()
                .any(|(key, value)| key == name && value.is_none())
        };
        assert!(removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR"));
    }
}
