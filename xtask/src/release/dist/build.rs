//! The released programs. They depend only on the sources, the lock file and the two compilers, but not on the folder
//! of the sources or the machine's linker.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use object::{Architecture as Machine, Object};
use usher_cluster::{
    programs::{ensure_package, ensure_target},
    progress::{run_logged, say},
};

use crate::{
    file,
    release::{IMAGE_FEATURES, KUBECTL, PROGRAMS},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    pub(super) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The name in images, the compiler's target, and the machine in the header of a program.
    const fn facts(self) -> (&'static str, &'static str, Machine) {
        match self {
            Self::Amd64 => ("amd64", "x86_64-unknown-linux-musl", Machine::X86_64),
            Self::Arm64 => ("arm64", "aarch64-unknown-linux-musl", Machine::Aarch64),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        self.facts().0
    }

    pub(super) const fn target(self) -> &'static str {
        self.facts().1
    }
}

/// The paths of the programs.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) of_image: Vec<PathBuf>,
    pub(super) kubectl: PathBuf,
}

impl Programs {
    /// Builds the programs of a working copy.
    pub(super) fn build(
        source: &Path,
        target_dir: &Path,
        architecture: Architecture,
    ) -> Result<Self> {
        let build = |programs: &[_], features: &[_]| {
            build(source, target_dir, architecture, programs, features)
        };
        let kubectl = build(&[KUBECTL], &[])?.remove(0);
        let of_image = build(&PROGRAMS, &[IMAGE_FEATURES])?;
        Ok(Self { of_image, kubectl })
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.of_image.iter().chain([&self.kubectl])
    }
}

fn build(
    source: &Path,
    target_dir: &Path,
    architecture: Architecture,
    programs: &[(&str, &str)],
    features: &[&str],
) -> Result<Vec<PathBuf>> {
    let target = architecture.target();
    ensure_target(target)?;
    let clang = ensure_package("clang", "clang")?;
    let mut cargo = usher_cluster::programs::cargo();
    cargo
        .current_dir(source)
        .args(["build", "--release", "--locked", "--target", target])
        .args(
            programs
                .iter()
                .flat_map(|(program, package)| ["--package", package, "--bin", program]),
        )
        .args(features)
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
    file::create_folder(target_dir)?;
    say(&format!("Building the programs for {target}: some minutes"));
    run_logged(&format!("programs for {target}"), &mut cargo, &log)?;
    let folder = target_dir.join(target).join("release");
    let built: Vec<PathBuf> = programs
        .iter()
        .map(|(program, _)| folder.join(program))
        .collect();
    for program in &built {
        check(program, architecture)?;
    }
    Ok(built)
}

/// Maps paths of this machine to paths that are equal everywhere, and selects the toolchain's own linker.
fn flags(source: &Path, target_dir: &Path) -> Vec<String> {
    let home = |variable: &str, folder: &str| {
        let own = env::var_os(variable).map(PathBuf::from);
        own.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(folder)))
    };
    let places = [
        (Some(source.to_owned()), "/usher"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (home("RUSTUP_HOME", ".rustup"), "/rustup"),
        // The last match wins, and this folder may be below the first.
        (Some(target_dir.to_owned()), "/target"),
    ];
    let remap = |(from, to): (Option<PathBuf>, &str)| {
        Some(format!("--remap-path-prefix={}={to}", from?.display()))
    };
    let mut flags: Vec<String> = places.into_iter().filter_map(remap).collect();
    flags.extend(["-Clinker=rust-lld", "-Clink-self-contained=yes"].map(str::to_owned));
    flags
}

/// Checks that a program is for this architecture and needs no other file: no interpreter, no library.
fn check(program: &Path, architecture: Architecture) -> Result<()> {
    let bytes = file::read_bytes(program)?;
    let shown = program.display();
    let parsed = object::File::parse(&*bytes).with_context(|| format!("{shown} is no program"))?;
    let (_, _, wanted) = architecture.facts();
    let machine = parsed.architecture();
    ensure!(
        machine == wanted,
        "{shown} is for {machine:?}, not {wanted:?}"
    );
    ensure!(
        parsed.section_by_name(".interp").is_none(),
        "{shown} is not static: it names an interpreter"
    );
    Ok(())
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
    fn own_program_is_not_static() {
        let own = env::current_exe().unwrap();
        let error = |program: &Path, architecture| {
            let error = check(program, architecture).unwrap_err();
            format!("{error:#}")
        };
        let both = Architecture::ALL.map(|architecture| error(&own, architecture));
        let of_machine = both
            .iter()
            .filter(|text| text.contains("names an interpreter"));
        assert_eq!(of_machine.count(), 1, "{both:?}");
        let others = both.iter().filter(|text| text.contains("is for"));
        assert_eq!(others.count(), 1, "{both:?}");
        let script = tempfile::NamedTempFile::new().unwrap();
        assert!(error(script.path(), Architecture::Amd64).contains("is no program"));
    }
}
