//! The shared libraries that a program needs in its image.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::progress::output;

/// The shared libraries and the loader of a program, by `ldd`.
pub(super) fn of(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = output(Command::new("ldd").arg(program))?;
    let mut libraries: Vec<PathBuf> = listed_libraries(&listed).map(PathBuf::from).collect();
    libraries.sort();
    libraries.dedup();
    for library in &libraries {
        fs::metadata(library)
            .with_context(|| format!("library {} of {}", library.display(), program.display()))?;
    }
    Ok(libraries)
}

/// The absolute paths in the output of `ldd`: `libm.so.6 => /lib/libm.so.6 (0x…)` and `/lib64/ld.so (0x…)`.
fn listed_libraries(listed: &str) -> impl Iterator<Item = &str> {
    listed
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_absolute_paths() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<&str> = listed_libraries(listed).collect();
        assert_eq!(
            found,
            [
                "/lib/x86_64-linux-gnu/libm.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
    }
}
