//! `THIRD-PARTY`: the licence texts of the packages in the programs, from their sources in cargo's registry.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use cargo_metadata::Package;

use super::dist::sbom;
use crate::file;

/// The file's name in the archive and in the image.
pub(crate) const NAME: &str = "THIRD-PARTY";

/// The standard library and the C library, which cargo does not know.
const TOOLCHAIN: &str = include_str!("toolchain.txt");
/// Prefixes of the names of files with licence texts.
const NAMES: [&str; 6] = [
    "licen",
    "copying",
    "copyright",
    "notice",
    "unlicense",
    "authors",
];

/// The same sources give the same text.
pub(crate) fn text() -> Result<String> {
    let packages = sbom::linked_packages()?;
    let others = packages.iter().filter(|one| one.source.is_some());
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in others {
        let licence = package.license.as_deref().unwrap_or_default();
        let title = format!("{} {} ({licence})", package.name, package.version);
        for text in texts(package)? {
            by_text.entry(text).or_default().push(title.clone());
        }
    }
    let mut sections: Vec<String> = by_text
        .into_iter()
        .map(|(text, titles)| format!("=== {}\n\n{text}\n\n", titles.join("\n=== ")))
        .collect();
    sections.sort();
    let intro = "The programs of usher contain these packages, under the licences that follow.\n\n";
    Ok([intro, TOOLCHAIN, &sections.concat()].concat())
}

/// The texts of a package. A package without a file has its authors instead; other packages have the text of its
/// licence.
fn texts(package: &Package) -> Result<Vec<String>> {
    let folder = package
        .manifest_path
        .parent()
        .context("a package's folder")?;
    let mut texts = Vec::new();
    for path in files(folder.as_std_path())? {
        let text = file::read_bytes(path)?;
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        texts.push(text.trim().to_owned());
    }
    texts.dedup();
    if texts.is_empty() {
        let authors = package.authors.join(", ");
        let repository = package.repository.as_deref().unwrap_or_default();
        texts.push(format!(
            "The package has no file with its licence. Authors: {authors}; sources: {repository}"
        ));
    }
    Ok(texts)
}

/// The files with licence texts, also those in a folder of licences, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in file::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_lowercase();
        if !NAMES.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        if path.is_dir() {
            files.extend(file::list(&path)?.into_iter().filter(|path| path.is_file()));
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_packages_have_their_licences() {
        let text = text().unwrap();
        assert_eq!(text, super::text().unwrap());
        for title in [
            "=== ring ",
            "=== tokio ",
            "=== rustls-webpki ",
            "=== musl libc",
        ] {
            assert!(text.contains(title), "{title}");
        }
        for line in [
            "Copyright (c) Tokio Contributors",
            "Rich Felker",
            "Apache License",
        ] {
            assert!(text.contains(line), "{line}");
        }
        // The program that runs tests is not released.
        assert!(!text.contains("=== proptest "));
        let without = text
            .matches("The package has no file with its licence")
            .count();
        assert!(without <= 12, "{without} packages without a text");
    }
}
