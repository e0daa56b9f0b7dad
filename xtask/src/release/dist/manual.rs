//! Manual pages and completions of all programs, as the package of the programs writes them: it alone knows their
//! command lines.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::tarball::Extras;
use crate::workspace::{cargo, run};

/// Writes them into a folder, which is emptied before, and returns each with its place in a tarball.
pub(super) fn write(folder: &Path) -> Result<Extras> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let mut program = cargo([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "usher-agent",
        "--example",
        "manual",
        "--",
    ]);
    run(program.arg(folder))?;
    let mut files = Extras::new();
    for kind in ["completions", "man"] {
        files.extend(of(folder, kind)?);
    }
    ensure!(!files.is_empty(), "there is no manual");
    Ok(files)
}

fn of(folder: &Path, kind: &str) -> Result<Extras> {
    let place = folder.join(kind);
    let entries = fs::read_dir(&place).with_context(|| format!("list {}", place.display()))?;
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.with_context(|| format!("list {}", place.display()))?;
        let path = entry.path();
        let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        Ok((PathBuf::from(kind).join(entry.file_name()), content))
    };
    let mut files = entries.map(read).collect::<Result<Extras>>()?;
    files.sort();
    Ok(files)
}
