//! The manifest of `kubectl usher` for krew.

use std::path::Path;

use anyhow::Result;
use usher_cluster::image;

use super::{VERSION, build::Architecture};
use crate::file;

const MANIFEST: &str = "deploy/krew/usher.yaml";
/// The name of the manifest among the files of a release.
const NAME: &str = "krew-usher.yaml";

/// The name of an archive, without its extension.
pub(super) fn archive(architecture: Architecture) -> String {
    format!("kubectl-usher-{VERSION}-linux-{}", architecture.name())
}

/// Writes the manifest of the archives in this folder.
pub(super) fn write(dist: &Path, docs: &str, download: &str) -> Result<()> {
    let text = file::read(MANIFEST)?;
    let mut sums = Vec::new();
    for architecture in Architecture::ALL {
        let name = format!("{}.tar.gz", archive(architecture));
        let word = format!("SHA256_{}", architecture.name().to_uppercase());
        sums.push((word, image::sha256(&dist.join(name))?));
    }
    file::write(dist.join(NAME), filled(&text, docs, download, &sums))
}

fn filled(text: &str, docs: &str, download: &str, sums: &[(String, String)]) -> String {
    let places = [("VERSION", VERSION), ("DOCS", docs), ("DOWNLOAD", download)];
    let sums = sums.iter().map(|(word, sum)| (&word[..], &sum[..]));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let all = places.into_iter().chain(sums);
    all.fold(text, |text, (word, value)| text.replace(word, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn manifest_names_files_and_checksums() {
        let text = file::read(MANIFEST).unwrap();
        let sums = Architecture::ALL.map(|architecture| {
            let name = architecture.name();
            (
                format!("SHA256_{}", name.to_uppercase()),
                format!("sum of {name}"),
            )
        });
        let text = filled(&text, "https://a.example/v1", "https://b.example/v1", &sums);
        for architecture in Architecture::ALL {
            let archive = archive(architecture);
            let name = architecture.name();
            for part in [
                format!("uri: https://b.example/v1/{archive}.tar.gz\n"),
                format!("sha256: \"sum of {name}\"\n"),
                format!("from: {archive}/kubectl-usher,"),
                format!("version: v{VERSION}\n"),
                "homepage: https://a.example/v1/docs/kubectl.md\n".to_owned(),
            ] {
                assert!(text.contains(&part), "{part}: {text}");
            }
        }
        for word in ["DOCS", "DOWNLOAD", "VERSION", "SHA256_"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        // The folder of the documentation has the linked page.
        assert!(root().join("docs/kubectl.md").is_file());
    }
}
