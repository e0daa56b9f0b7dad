//! `cargo xtask dist`: the files of a release, in `target/dist`; `docs/release.md` lists them.
//!
//! The same sources give the same bytes on every machine. `--verify` checks this for the programs.

mod archive;
mod build;
mod krew;
pub(super) mod sbom;
mod verify;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::json;
use usher_cluster::{
    image::{self, Image, oci},
    progress::say,
};

use self::build::{Architecture, Programs};
use super::notices;
use crate::{
    file,
    workspace::{root, shown, target_dir},
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build the programs again, from a copy of the sources in another folder, and compare
    #[arg(long)]
    verify: bool,
    /// The image's name, which the chart then has by default [default: usher.test/usher-agent:VERSION]
    #[arg(long)]
    tag: Option<String>,
    /// URL of the folder that contains docs, for the links of the chart's alerts
    #[arg(long)]
    docs: Option<String>,
    /// URL of the folder that will contain these files, for the krew manifest (with --docs)
    #[arg(long, requires = "docs")]
    download: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dist = target_dir().join("dist");
    file::renew_folder(&dist)?;
    let mut built = Vec::new();
    for architecture in Architecture::ALL {
        // Not the directory of `cargo build`: other flags would make cargo build everything again.
        let programs = Programs::build(root(), &target_dir().join("dist-build"), architecture)?;
        if args.verify {
            verify::verify(&programs, architecture)?;
        }
        built.push((architecture, programs));
    }
    let notices = notices::text()?;
    let mut extras = archive::manual()?;
    extras.push((notices::NAME.into(), notices.clone().into_bytes()));
    for (architecture, programs) in &built {
        let name = format!("usher-{VERSION}-linux-{}", architecture.name());
        archive::programs(&name, &programs.of_image, &extras, &dist)?;
        let kubectl = std::slice::from_ref(&programs.kubectl);
        let only_notices = vec![(notices::NAME.into(), notices.clone().into_bytes())];
        archive::programs(&krew::archive(*architecture), kubectl, &only_notices, &dist)?;
    }
    if let (Some(docs), Some(download)) = (&args.docs, &args.download) {
        krew::write(&dist, docs, download)?;
    }
    let name = args.tag.clone();
    let name = name.unwrap_or_else(|| format!("usher.test/usher-agent:{VERSION}"));
    let digest = write_image(&name, &built, &notices, &dist)?;
    sbom::write(&dist.join(format!("usher-{VERSION}.cdx.json")))?;
    archive::chart(args.tag.as_deref(), args.docs.as_deref(), &dist)?;
    let sums = sums(&dist)?;
    file::write(dist.join("SHA256SUMS"), &sums)?;
    say(&format!(
        "In {}:\n{sums}image {name} has the digest {digest}",
        shown(&dist)
    ));
    Ok(())
}

fn write_image(
    name: &str,
    built: &[(Architecture, Programs)],
    notices: &str,
    dist: &Path,
) -> Result<String> {
    let mut layers = Vec::new();
    for (architecture, programs) in built {
        let layer = super::image::layer(&programs.of_image, notices)?;
        layers.push((architecture.name(), layer));
    }
    let images: Vec<(&str, Image<'_>)> = layers
        .iter()
        .map(|(architecture, (layer, config))| {
            let image = Image {
                name,
                layers: vec![layer],
                config: config.clone(),
            };
            (*architecture, image)
        })
        .collect();
    let annotations = json!({
        "org.opencontainers.image.title": "usher",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
    });
    let archive = dist.join(format!("usher-agent-{VERSION}.oci.tar"));
    oci::write(name, &images, &annotations, &archive)
}

/// One line of `sha256sum` for each file.
fn sums(dist: &Path) -> Result<String> {
    let line = |path: &PathBuf| {
        ensure!(path.is_file(), "{} is not a file", path.display());
        let name = path.file_name().unwrap_or_default();
        Ok(format!("{}  {}\n", image::sha256(path)?, name.display()))
    };
    file::list(dist)?.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn sums_are_sorted_and_of_files_only() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let expected = format!("{empty}  a\n{empty}  b\n");
        assert_eq!(sums(dir.path()).unwrap(), expected);
        fs::create_dir(dir.path().join("c")).unwrap();
        assert!(sums(dir.path()).is_err());
    }
}
