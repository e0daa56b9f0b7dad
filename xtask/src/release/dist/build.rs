//! The programs that are shipped, built so that they depend on nothing but the sources, the lock file and the two
//! compilers: not on where the sources are, not on the machine's linker.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use usher_cluster::{
    image,
    programs::{self, ensure_package, ensure_target},
    progress::{run_logged, say},
};

/// The programs, the first of which is the image's entrypoint.
pub(super) const PROGRAMS: [&str; 3] = ["usher-agent", "usher", "usher-cni"];

/// What is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    pub(super) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// As images call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As the compiler calls it.
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// As the header of a program says it
    /// ([elf.h](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/elf-em.h)).
    fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }
}

/// Builds the programs of a working copy, and returns where each is.
pub(super) fn programs(
    source: &Path,
    target_dir: &Path,
    architecture: Architecture,
) -> Result<Vec<PathBuf>> {
    let target = architecture.target();
    ensure_target(target)?;
    let clang = ensure_package("clang", "clang")?;
    let mut cargo = programs::cargo();
    cargo
        .current_dir(source)
        .args(["build", "--release", "--locked", "--target", target])
        .args(["--package", "usher-agent", "--package", "usher-cli"])
        .args(["--package", "usher-cni"])
        .args(PROGRAMS.iter().flat_map(|program| ["--bin", program]))
        .arg("--target-dir")
        .arg(target_dir);
    for variable in ["RUSTFLAGS", "CARGO_BUILD_TARGET", "CFLAGS", "LDFLAGS"] {
        cargo.env_remove(variable);
    }
    let flags = flags(source, target_dir);
    cargo
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("SOURCE_DATE_EPOCH", "0")
        .env(format!("CC_{}", target.replace('-', "_")), &clang);
    let log = target_dir.join(format!("dist-{}.log", architecture.name()));
    fs::create_dir_all(target_dir).with_context(|| format!("create {}", target_dir.display()))?;
    say(&format!(
        "Building {} for {target}: some minutes",
        PROGRAMS.join(", ")
    ));
    run_logged(&format!("programs for {target}"), &mut cargo, &log)?;
    let folder = target_dir.join(target).join("release");
    let built = PROGRAMS.map(|program| folder.join(program));
    for program in &built {
        check(program, architecture)?;
    }
    Ok(built.into())
}

/// Paths of this machine become others that are the same everywhere, and the linker is the toolchain's own.
fn flags(source: &Path, target_dir: &Path) -> Vec<String> {
    let home = |variable: &str, folder: &str| {
        let own = env::var_os(variable).map(PathBuf::from);
        own.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(folder)))
    };
    let places = [
        (Some(source.to_owned()), "/usher"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (home("RUSTUP_HOME", ".rustup"), "/rustup"),
        // The last that fits counts, and this one may be below the first.
        (Some(target_dir.to_owned()), "/target"),
    ];
    let remap = |(from, to): (Option<PathBuf>, &str)| {
        Some(format!("--remap-path-prefix={}={to}", from?.display()))
    };
    let mut flags: Vec<String> = places.into_iter().filter_map(remap).collect();
    flags.extend(["-Clinker=rust-lld", "-Clink-self-contained=yes"].map(str::to_owned));
    flags
}

/// Whether a program is for this architecture and needs no other file: no interpreter, no library.
fn check(program: &Path, architecture: Architecture) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    let shown = program.display();
    let elf = Elf::read(&bytes).with_context(|| format!("{shown} is no 64-bit program"))?;
    ensure!(
        elf.machine == architecture.machine(),
        "{shown} is for machine {}, not {}",
        elf.machine,
        architecture.machine()
    );
    if elf.has_interpreter {
        bail!("{shown} is not static: it names an interpreter");
    }
    Ok(())
}

/// The little of a program's header that is looked at
/// ([elf(5)](https://man7.org/linux/man-pages/man5/elf.5.html)).
#[derive(Debug, PartialEq, Eq)]
struct Elf {
    machine: u16,
    has_interpreter: bool,
}

impl Elf {
    fn read(bytes: &[u8]) -> Option<Self> {
        const INTERPRETER: u32 = 3;
        // 64 bits, least significant byte first.
        if bytes.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let short = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let table = u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?);
        let (length, count) = (usize::from(short(54)?), usize::from(short(56)?));
        let mut has_interpreter = false;
        for index in 0..count {
            let at = usize::try_from(table).ok()?.checked_add(index * length)?;
            let kind = bytes.get(at..at.checked_add(4)?)?;
            has_interpreter |= u32::from_le_bytes(kind.try_into().ok()?) == INTERPRETER;
        }
        Some(Self {
            machine: short(18)?,
            has_interpreter,
        })
    }
}

/// SHA-256 of each program, by name.
pub(super) fn digests(programs: &[PathBuf]) -> Result<BTreeMap<String, String>> {
    let of = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().display().to_string();
        Ok((name, image::sha256(path)?))
    };
    programs.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_this_machine_are_replaced() {
        let flags = flags(Path::new("/somewhere/a"), Path::new("/somewhere/a/target"));
        assert_eq!(flags[0], "--remap-path-prefix=/somewhere/a=/usher");
        let last = flags.iter().rfind(|flag| flag.starts_with("--remap"));
        assert_eq!(
            last.unwrap(),
            "--remap-path-prefix=/somewhere/a/target=/target"
        );
    }

    #[test]
    fn header_of_a_program() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        let elf = Elf::read(&own).unwrap();
        assert!(elf.has_interpreter, "tests are linked dynamically");
        assert!([62, 183].contains(&elf.machine));
        for cut in [0, 5, 19, 40, 63] {
            assert_eq!(Elf::read(&own[..cut]), None);
        }
        assert_eq!(Elf::read(b"#!/bin/sh\n"), None);
    }
}
