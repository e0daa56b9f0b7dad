//! Debian's kernels, and the tools that boot them on a machine without virtualization.

use std::{
    ffi::OsStr,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{
    debian::ensure_package,
    tree::{self, Fetch},
};
use crate::progress::output;

const EMULATOR: &str = "qemu-system-x86_64";

#[derive(Debug, Clone)]
pub struct Kernel {
    /// The output of `uname -r`.
    pub release: String,
    /// The bootable image.
    pub image: PathBuf,
    /// The directory with `lib/modules`, with `modules.dep` added.
    pub tree: PathBuf,
}

/// Programs that a guest needs before it has a root file system.
#[derive(Debug, Clone)]
pub struct Tools {
    pub emulator: PathBuf,
    /// Statically linked.
    pub busybox: PathBuf,
    kmod: PathBuf,
}

/// The emulator is installed, the others are unpacked.
pub fn tools() -> Result<Tools> {
    let busybox = tree::tree("busybox", &["busybox-static"], Fetch::Alone, "1 MB")?;
    let kmod = tree::tree("kmod", &["kmod"], Fetch::WithDependencies, "1 MB")?;
    Ok(Tools {
        emulator: ensure_package(EMULATOR, "qemu-system-x86")?,
        busybox: busybox.join("bin/busybox"),
        kmod,
    })
}

/// Debian's newest kernel of a series: `6.1`, `6.12`.
pub fn kernel(series: &str, tools: &Tools) -> Result<Kernel> {
    let package = package(series)?;
    let tree = tree::tree(&package, &[&package], Fetch::Alone, "70 to 110 MB")?;
    let modules = tree.join("lib/modules");
    let mut releases = fs::read_dir(&modules).context("list the kernel's modules")?;
    let release = releases.next().context("the package has no modules")??;
    let release = release.file_name().display().to_string();
    if !modules.join(&release).join("modules.dep").exists() {
        let mut depmod = tools.kmod("depmod");
        output(depmod.arg("-b").arg(&tree).arg(&release))?;
    }
    Ok(Kernel {
        image: tree.join(format!("boot/vmlinuz-{release}")),
        release,
        tree,
    })
}

/// The package that the metapackage of a series depends on. Bookworm's own series has no numbered metapackage.
fn package(series: &str) -> Result<String> {
    let name = |series: &str| format!("linux-image-{series}amd64");
    let newest = |meta: String| {
        let mut depends = Command::new("apt-cache");
        let text = output(depends.args(["depends", &meta])).ok()?;
        let package = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: "))?;
        package
            .contains(&format!("-{series}."))
            .then(|| package.to_owned())
    };
    newest(name(&format!("{series}-")))
        .or_else(|| newest(name("")))
        .with_context(|| {
            format!("Debian has no kernel {series} for this release; run apt-get update")
        })
}

impl Tools {
    fn kmod(&self, applet: &str) -> Command {
        let mut command = tree::program(&self.kmod, "bin/kmod");
        command.arg0(OsStr::new(applet));
        command
    }

    /// The files of modules and of all their dependencies, in load order.
    pub fn module_files(&self, kernel: &Kernel, modules: &[&str]) -> Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        for module in modules {
            let mut modprobe = self.kmod("modprobe");
            modprobe.arg("-d").arg(&kernel.tree);
            modprobe.args(["-S", &kernel.release, "--show-depends", module]);
            for line in output(&mut modprobe)?.lines() {
                let file = line
                    .strip_prefix("insmod ")
                    .map(|file| PathBuf::from(file.trim()));
                files.extend(file.filter(|file| !files.contains(file)));
            }
        }
        Ok(files)
    }

    /// A module in the kernel's format: newer packages compress them.
    pub fn module(&self, file: &Path) -> Result<Vec<u8>> {
        if file.extension().is_none_or(|end| end != "xz") {
            return fs::read(file).with_context(|| format!("read {}", file.display()));
        }
        let mut unpack = Command::new(&self.busybox);
        let unpacked = unpack.args(["xz", "-dc"]).arg(file).output();
        let unpacked = unpacked.with_context(|| format!("unpack {}", file.display()))?;
        anyhow::ensure!(unpacked.status.success(), "unpack {}", file.display());
        Ok(unpacked.stdout)
    }
}
