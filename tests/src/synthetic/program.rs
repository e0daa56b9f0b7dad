//! The paths of the test pods' binary, outside and inside of containers.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The binary's path in a container.
pub const IN_CONTAINER: &str = "/pod";
/// Where a volume with the binary is mounted in a container.
pub const VOLUME: &str = "/volume";
/// A script in a container whose interpreter is the binary.
pub const SCRIPT: &str = "/script";
/// Where the termination log is mounted in a container.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// Where a pod's resolver files are mounted in a container.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";
pub const HOSTS: &str = "/etc/hosts";
/// The name in Cargo's target directory.
const NAME: &str = "usher-test-pod";
/// Directories that may have a dynamic linker and its libraries.
const LIBRARIES: [&str; 3] = ["/usr", "/lib", "/lib64"];

/// The binary, from the directory of the running test or benchmark: Cargo puts
/// tests into `deps` below the directory of the binaries, and builds a
/// package's binaries before its tests.
///
/// # Panics
///
/// If it does not exist.
pub fn path() -> PathBuf {
    beside_this(NAME).unwrap_or_else(|| {
        panic!("{NAME} is not beside this executable; build it: cargo build -p usher-tests")
    })
}

/// A binary of this name in the directory of the running executable or one
/// above it.
pub fn beside_this(name: &str) -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    this.ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// The directories that a container shares with the machine, so that a
/// dynamically linked program runs in it.
pub fn library_directories() -> Vec<PathBuf> {
    let directories = LIBRARIES.map(PathBuf::from);
    directories
        .into_iter()
        .filter(|path| path.is_dir() && !path.is_symlink())
        .collect()
}

/// Creates the directory that is mounted as every container's root.
///
/// # Panics
///
/// If it cannot be created.
pub fn lay_root(root: &Path) {
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    for directory in ["/dev", "/etc", "/proc"].map(Path::new) {
        make_directory(&inside(directory));
    }
    for file in [IN_CONTAINER, TERMINATION_LOG, RESOLV_CONF, HOSTS].map(Path::new) {
        std::fs::write(inside(file), "").expect("the scratch directory is writable");
    }
    for library in LIBRARIES.map(Path::new) {
        if let Ok(target) = std::fs::read_link(library) {
            std::os::unix::fs::symlink(target, inside(library))
                .expect("the scratch directory is writable");
        } else if library.is_dir() {
            make_directory(&inside(library));
        }
    }
}

/// Copies the binary, and a script for it, into such a directory. A
/// mount of that directory is a separate file system.
///
/// # Panics
///
/// If it cannot be copied.
pub fn lay_program(root: &Path) {
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    std::fs::remove_file(inside(IN_CONTAINER)).expect("the root was laid");
    place(&inside(IN_CONTAINER));
    make_directory(&inside(VOLUME));
    let script = format!("#!{IN_CONTAINER} script\n");
    std::fs::write(inside(SCRIPT), script).expect("the scratch directory is writable");
    let executable = Permissions::from_mode(0o755);
    std::fs::set_permissions(inside(SCRIPT), executable).expect("it was written");
}

/// Places the binary at a path.
///
/// # Panics
///
/// If it cannot be copied.
pub fn place(target: &Path) {
    // Hard links do not work across file systems. Another process writes the copy. Otherwise a child that another test
    // forks meanwhile would inherit the file open for writing, and the copy could not be executed.
    if std::fs::hard_link(path(), target).is_err() {
        let copied = Command::new("cp").arg(path()).arg(target).status();
        let is_copied = copied.is_ok_and(|status| status.success());
        assert!(is_copied, "the scratch directory has space");
    }
}

fn make_directory(path: &Path) {
    std::fs::create_dir_all(path).expect("the scratch directory is writable");
}
