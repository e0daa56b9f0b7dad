//! The programs of one architecture with what goes beside them, as a tar file compressed by gzip.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use usher_cluster::image::{self, Layer};

use crate::workspace::root;

/// Files that go beside the programs: a place in the tarball, and what is there.
pub(super) type Extras = Vec<(PathBuf, Vec<u8>)>;

/// Of the repository.
const TEXTS: [&str; 2] = ["LICENSE", "README.md"];

/// Writes `NAME.tar.gz`, in which everything is below a folder of this name.
pub(super) fn write(name: &str, programs: &[PathBuf], extras: &Extras, dist: &Path) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_content_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("usher");
        fs::write(&program, "program").unwrap();
        let extras: Extras = vec![("man/usher.1".into(), b"page".to_vec())];
        let archives = ["one", "two"].map(|folder| {
            let folder = dir.path().join(folder);
            fs::create_dir(&folder).unwrap();
            write("usher-1", std::slice::from_ref(&program), &extras, &folder).unwrap();
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
            fs::read(folder.join("usher-1.tar.gz")).unwrap()
        });
        assert_eq!(archives[0], archives[1]);
        // The time that gzip keeps.
        assert_eq!(archives[0][4..8], [0; 4]);
    }
}
