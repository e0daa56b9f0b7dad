//! One guest: an initramfs, an emulator and its output.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use usher_cluster::{
    programs::{Kernel, Tools},
    progress::output,
};
use usher_tests::wait::FACTOR_VARIABLE;

use super::suite::Suite;
use crate::{
    file,
    workspace::{root, target_dir},
};

/// Kernel modules that mount the machine's file system.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];
const INIT: &str = include_str!("init.sh");
/// The script of busybox that packs the folder that it runs in.
const PACK: &str = r#""$0" find . > ../names && "$0" cpio -o -H newc < ../names > ../initramfs"#;
/// Mount points of the init script.
const DIRECTORIES: [&str; 7] = ["bin", "proc", "dev", "host", "layer", "new", "modules"];
/// Factor for the timeouts of tests in a guest.
const SLOWER: u32 = 10;
/// Time limit of a guest.
const LIMIT: &str = "60m";
/// Prefix of output lines for the host.
pub(super) const MARK: &str = "vm-suite";

/// Boots a kernel, runs the suites one after the other and passes every line on. The guest has only its own network.
pub(super) fn run(
    kernel: &Kernel,
    tools: &Tools,
    suites: &[Suite],
    mut line: impl FnMut(&str),
) -> Result<()> {
    let folder = target_dir().join("vm").join(&kernel.release);
    file::renew_folder(&folder)?;
    let initramfs = initramfs(&folder, kernel, tools, suites)?;
    let mut emulator = Command::new("timeout");
    emulator.arg(LIMIT).arg(&tools.emulator);
    // Emulation, because a device for virtualization may exist and not work. One thread for both processors: with two,
    // a guest's kernel sometimes crashes at an int3 (QEMU 7.2, Linux 6.12). It has already restored the instruction of
    // a jump label, and the other processor runs the old translation.
    emulator.args(["-accel", "tcg,thread=single", "-cpu", "max"]);
    emulator.args(["-m", "3072", "-smp", "2", "-nodefaults", "-nographic"]);
    emulator.args(["-serial", "stdio", "-no-reboot"]);
    emulator.arg("-kernel").arg(&kernel.image);
    emulator.arg("-initrd").arg(&initramfs);
    emulator.args(["-append", "console=ttyS0 loglevel=1 panic=-1"]);
    emulator.args([
        "-virtfs",
        "local,path=/,mount_tag=host,security_model=passthrough,readonly=on,multidevs=remap",
    ]);
    let mut guest = emulator
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the emulator")?;
    let output = guest.stdout.take().context("no pipe from the emulator")?;
    for text in BufReader::new(output).split(b'\n') {
        let text = text.context("read the guest's output")?;
        line(String::from_utf8_lossy(&text).trim_end());
    }
    let status = guest.wait().context("wait for the emulator")?;
    ensure!(
        status.success(),
        "the guest ended with {status} (limit {LIMIT})"
    );
    Ok(())
}

fn initramfs(folder: &Path, kernel: &Kernel, tools: &Tools, suites: &[Suite]) -> Result<PathBuf> {
    let root = folder.join("root");
    for directory in DIRECTORIES {
        file::create_folder(root.join(directory))?;
    }
    file::copy(&tools.busybox, root.join("bin/busybox"))?;
    for (number, file) in tools.module_files(kernel, &MODULES)?.iter().enumerate() {
        let module = tools.module(file)?;
        // The guest loads them in the order of their names.
        file::write(root.join(format!("modules/{number:02}.ko")), module)?;
    }
    let init = INIT.replace("@TREE@", &kernel.tree.display().to_string());
    file::write(root.join("init"), init)?;
    fs::set_permissions(root.join("init"), Permissions::from_mode(0o755))
        .context("make init a program")?;
    file::write(root.join("suites"), script(suites))?;
    let mut pack = Command::new(&tools.busybox);
    pack.args(["sh", "-c", PACK]).arg(&tools.busybox);
    output(pack.current_dir(&root))?;
    Ok(folder.join("initramfs"))
}

/// Runs every suite, continues after a failure, and powers off.
fn script(suites: &[Suite]) -> String {
    let mut script = format!(
        "echo\ncd {}\nexport HOME=/root CI=true {FACTOR_VARIABLE}={SLOWER} PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
        root().display()
    );
    for suite in suites {
        let words = suite.command.join(" ");
        script.push_str(&format!(
            "echo '{MARK} begin {name}'\n{words} 2>&1\necho \"{MARK} end {name} $?\"\n",
            name = suite.name
        ));
    }
    // Loop until the kernel has powered off, which another thread does.
    script.push_str("echo o > /proc/sysrq-trigger\nwhile :; do :; done\n");
    script
}
