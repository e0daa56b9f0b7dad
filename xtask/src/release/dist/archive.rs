//! The archives of a release: one of programs, manual pages and completions for each architecture, and the chart.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use usher_cluster::{
    image::{self, Layer},
    programs,
};

use super::VERSION;
use crate::{
    file,
    workspace::{cargo, root, run, target_dir},
};

/// Paths in the archive, with their contents.
pub(super) type Extras = Vec<(PathBuf, Vec<u8>)>;

const TEXTS: [&str; 2] = ["LICENSE", "README.md"];
const CHART: &str = "deploy/chart";

/// Writes `NAME.tar.gz` with everything in a folder of this name.
pub(super) fn programs(
    name: &str,
    programs: &[PathBuf],
    extras: &Extras,
    dist: &Path,
) -> Result<()> {
    let top = Path::new("/").join(name);
    let mut layer = Layer::default();
    for program in programs {
        let file = program.file_name().unwrap_or_default();
        layer = layer.file(top.join(file), program, 0o755);
    }
    for text in TEXTS {
        layer = layer.file(top.join(text), root().join(text), 0o644);
    }
    for (place, content) in extras {
        layer = layer.bytes(top.join(place), content.clone(), 0o644);
    }
    let plain = dist.join(format!("{name}.tar"));
    layer.write(&plain)?;
    image::gzip(&plain, &dist.join(format!("{name}.tar.gz")))?;
    fs::remove_file(&plain).with_context(|| format!("remove {}", plain.display()))
}

/// Manual pages and completions, which an example of the programs' package writes.
pub(super) fn manual() -> Result<Extras> {
    let folder = target_dir().join("dist-manual");
    file::renew_folder(&folder)?;
    let example = ["run", "--quiet", "--locked", "--package", "usher-agent"];
    run(cargo(example)
        .args(["--example", "manual", "--"])
        .arg(&folder))?;
    let mut files = Extras::new();
    for kind in ["completions", "man"] {
        for path in file::list(folder.join(kind))? {
            let content = file::read_bytes(&path)?;
            files.push((path.strip_prefix(&folder)?.to_owned(), content));
        }
    }
    Ok(files)
}

/// The values of a published chart: by default with this image, whose name may have a tag, and with the URL of the
/// folder that contains `docs`.
fn published(values: &str, image: Option<&str>, docs: Option<&str>) -> Result<String> {
    let repository = image.map(|image| match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => image,
    });
    let defaults = [
        ("\n  repository: ", repository),
        ("\n    runbookBase: ", docs),
    ];
    let mut values = values.to_owned();
    for (key, value) in defaults {
        let Some(value) = value else { continue };
        let empty = format!("{key}\"\"\n");
        let count = values.matches(&empty).count();
        ensure!(
            count == 1,
            "values.yaml has {count} times {:?}",
            empty.trim()
        );
        values = values.replace(&empty, &format!("{key}{value}\n"));
    }
    Ok(values)
}

/// Writes `usher-VERSION.tgz`: packed by helm, and packed again without helm's time.
pub(super) fn chart(image: Option<&str>, docs: Option<&str>, dist: &Path) -> Result<()> {
    let folder = target_dir().join("dist-chart");
    let sources = folder.join("usher");
    file::renew_folder(&folder)?;
    run(Command::new("cp")
        .arg("-r")
        .arg(root().join(CHART))
        .arg(&sources))?;
    let values = sources.join("values.yaml");
    file::write(&values, published(&file::read(&values)?, image, docs)?)?;
    let mut package = Command::new(programs::helm()?);
    package
        .args(["package", "--app-version", VERSION, "--version", VERSION])
        .arg("--destination")
        .arg(&folder)
        .arg(&sources);
    run(&mut package)?;
    let name = format!("usher-{VERSION}.tgz");
    let plain = folder.join("chart.tar");
    Layer::of_tar_gz(&folder.join(&name))?.write(&plain)?;
    image::gzip(&plain, &dist.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_chart_has_its_image_and_documentation() {
        let values = fs::read_to_string(root().join(CHART).join("values.yaml")).unwrap();
        let image = Some("registry.example:5000/a/usher-agent:1.2.3");
        let docs = Some("https://git.example/usher/blob/v1.2.3");
        let text = published(&values, image, docs).unwrap();
        assert!(text.contains("\n  repository: registry.example:5000/a/usher-agent\n"));
        assert!(text.contains("\n    runbookBase: https://git.example/usher/blob/v1.2.3\n"));
        assert_eq!(published(&values, None, None).unwrap(), values);
        let without_tag = Some("registry.example:5000/usher-agent");
        let text = published(&values, without_tag, None).unwrap();
        assert!(text.contains("repository: registry.example:5000/usher-agent\n"));
        assert!(published("image: {}\n", image, docs).is_err());
    }

    #[test]
    fn same_content_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("usher");
        fs::write(&program, "program").unwrap();
        let extras: Extras = vec![("man/usher.1".into(), b"page".to_vec())];
        let archives = ["one", "two"].map(|folder| {
            let folder = dir.path().join(folder);
            fs::create_dir(&folder).unwrap();
            programs("usher-1", std::slice::from_ref(&program), &extras, &folder).unwrap();
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
            fs::read(folder.join("usher-1.tar.gz")).unwrap()
        });
        assert_eq!(archives[0], archives[1]);
        // The time in gzip's header is zero.
        assert_eq!(archives[0][4..8], [0; 4]);
    }
}
