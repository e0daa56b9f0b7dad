//! The programs from the operating system: the container runtime, the CNI plugins and a few tools.

use std::{
    env,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::find;
use crate::{
    cache,
    progress::{run_logged, say},
};

/// Each program and the Debian package that has it.
const PROGRAMS: [(&str, &str); 13] = [
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("ip", "iproute2"),
    ("mount", "mount"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("runc", "runc"),
    ("setsid", "util-linux"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
    ("xtables-legacy-multi", "iptables"),
    ("xtables-nft-multi", "iptables"),
];

const CNI_PACKAGE: &str = "containernetworking-plugins";
const CNI_FOLDERS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
/// The plugins of the node's network.
pub(super) const CNI_PLUGINS: [&str; 5] = ["bridge", "host-local", "loopback", "portmap", "ptp"];

/// Installs the packages of missing programs, or names them.
pub fn ensure_packages() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let (names, listed) = (names.join(", "), packages.join(" "));
    install(&packages, &names, &listed, || self::missing().is_empty())?;
    match self::missing().first() {
        Some((program, package)) => {
            bail!("{program} is still missing after the installation of {package}")
        }
        None => Ok(()),
    }
}

/// Installs a package unless its program exists, and returns the path of the program.
pub fn ensure_package(program: &str, package: &str) -> Result<PathBuf> {
    if find(program).is_none() {
        install(&[package], program, package, || find(program).is_some())?;
    }
    find(program).with_context(|| format!("no {program}: install {package} (Debian's name)"))
}

/// dpkg has one lock: another process that installs a package waits, and may find the package installed then.
fn install(
    packages: &[&str],
    names: &str,
    listed: &str,
    is_there: impl FnOnce() -> bool,
) -> Result<()> {
    if find("apt-get").is_none() || !nix::unistd::geteuid().is_root() {
        bail!("missing: {names}; install the packages {listed} (Debian's names)");
    }
    let cache = cache::root()?;
    let path = cache.join("apt-get.lock");
    let lock = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    lock.lock()
        .with_context(|| format!("lock {}", path.display()))?;
    if is_there() {
        return Ok(());
    }
    say(&format!(
        "Installing {listed} by apt-get, for {names}; less than a minute, once"
    ));
    let log = cache.join("apt-get.log");
    run_logged(
        "apt-get update",
        Command::new("apt-get").arg("update"),
        &log,
    )?;
    let mut install = Command::new("apt-get");
    install
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    run_logged("apt-get install", &mut install, &log)?;
    Ok(())
}

/// Program and package of everything that is missing, packages in order.
fn missing() -> Vec<(&'static str, &'static str)> {
    let mut missing: Vec<_> = PROGRAMS
        .into_iter()
        .filter(|(program, _)| find(program).is_none())
        .collect();
    if cni_folder().is_none() {
        missing.push(("the CNI plugins", CNI_PACKAGE));
    }
    missing.sort_by_key(|(_, package)| *package);
    missing
}

fn cni_folder() -> Option<&'static Path> {
    CNI_FOLDERS.map(Path::new).into_iter().find(|folder| {
        CNI_PLUGINS
            .iter()
            .all(|plugin| folder.join(plugin).is_file())
    })
}

/// The CNI plugins that the node's network needs.
pub fn cni_plugins() -> Result<Vec<PathBuf>> {
    let folder = cni_folder().with_context(|| format!("no CNI plugins: install {CNI_PACKAGE}"))?;
    Ok(CNI_PLUGINS.map(|plugin| folder.join(plugin)).to_vec())
}

/// The programs that set up a pod's capture rules: both kinds of iptables, and nft.
#[derive(Debug, Clone)]
pub struct Iptables {
    pub programs: Vec<PathBuf>,
    /// iptables loads them at run time, only from this directory.
    pub extensions: PathBuf,
}

pub(super) fn iptables() -> Result<Iptables> {
    let programs = ["xtables-nft-multi", "xtables-legacy-multi", "nft"]
        .iter()
        .map(|name| find(name).with_context(|| format!("no {name}: install iptables and nftables")))
        .collect::<Result<_>>()?;
    let extensions = PathBuf::from(format!("/usr/lib/{}-linux-gnu/xtables", env::consts::ARCH));
    ensure!(
        extensions.is_dir(),
        "no iptables extensions in {}",
        extensions.display()
    );
    Ok(Iptables {
        programs,
        extensions,
    })
}
