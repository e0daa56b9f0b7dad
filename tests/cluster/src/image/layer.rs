//! One layer of an image: a tar of files with explicit modes and owners.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::hex;

#[derive(Debug, Clone)]
enum Content {
    Directory,
    Bytes(Vec<u8>),
    File(PathBuf),
    Link(PathBuf),
}

#[derive(Debug, Clone)]
struct Entry {
    content: Content,
    mode: u32,
    uid: u64,
    gid: u64,
}

/// The content of a layer, by absolute path. Missing parent directories are added with owner root and mode 755.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Layer {
    /// A copy of a file of this machine.
    #[must_use]
    pub fn file(self, path: impl Into<PathBuf>, source: impl Into<PathBuf>, mode: u32) -> Self {
        self.with(path.into(), Content::File(source.into()), mode)
    }

    #[must_use]
    pub fn bytes(self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>, mode: u32) -> Self {
        self.with(path.into(), Content::Bytes(content.into()), mode)
    }

    /// The files of a compressed tar, to be written again without times and owners.
    pub fn of_tar_gz(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let mut archive = tar::Archive::new(GzDecoder::new(file));
        let mut layer = Self::default();
        let unreadable = || format!("read {}", path.display());
        for entry in archive.entries().with_context(unreadable)? {
            let mut entry = entry.with_context(unreadable)?;
            if entry.header().entry_type() != EntryType::Regular {
                continue;
            }
            let place = Path::new("/").join(entry.path().with_context(unreadable)?);
            let mode = entry.header().mode().with_context(unreadable)? & 0o777;
            let mut content = Vec::new();
            entry.read_to_end(&mut content).with_context(unreadable)?;
            layer = layer.bytes(place, content, mode);
        }
        Ok(layer)
    }

    /// A symbolic link, relative to its folder or absolute.
    #[must_use]
    pub fn link(self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        self.with(path.into(), Content::Link(target.into()), 0o777)
    }

    #[must_use]
    pub fn directory(self, path: impl Into<PathBuf>, mode: u32) -> Self {
        self.with(path.into(), Content::Directory, mode)
    }

    /// Gives a path, and everything below it that is in the layer so far, to a user.
    #[must_use]
    pub fn owned_by(mut self, path: impl AsRef<Path>, uid: u64, gid: u64) -> Self {
        for (_, entry) in self
            .entries
            .iter_mut()
            .filter(|(entry_path, _)| entry_path.starts_with(path.as_ref()))
        {
            (entry.uid, entry.gid) = (uid, gid);
        }
        self
    }

    fn with(mut self, path: PathBuf, content: Content, mode: u32) -> Self {
        for parent in path
            .ancestors()
            .skip(1)
            .filter(|parent| parent.parent().is_some())
        {
            let missing = || Entry {
                content: Content::Directory,
                mode: 0o755,
                uid: 0,
                gid: 0,
            };
            self.entries
                .entry(parent.to_owned())
                .or_insert_with(missing);
        }
        self.entries.insert(
            path,
            Entry {
                content,
                mode,
                uid: 0,
                gid: 0,
            },
        );
        self
    }

    /// Writes the tar and returns its SHA-256 in hexadecimal digits.
    pub fn write(&self, path: &Path) -> Result<String> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        let mut out = Builder::new(Hashing {
            inner: BufWriter::new(file),
            hash: Sha256::new(),
        });
        for (path, entry) in &self.entries {
            append(&mut out, path, entry)
                .with_context(|| format!("layer entry {}", path.display()))?;
        }
        let mut hashing = out.into_inner().context("end the layer")?;
        hashing.inner.flush().context("end the layer")?;
        Ok(hex(&hashing.hash.finalize()))
    }
}

fn append(out: &mut Builder<impl Write>, path: &Path, entry: &Entry) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_uid(entry.uid);
    header.set_gid(entry.gid);
    header.set_mtime(0);
    let name = path.strip_prefix("/").unwrap_or(path);
    match &entry.content {
        Content::Directory => {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            out.append_data(&mut header, name, io::empty())?;
        }
        Content::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            out.append_link(&mut header, name, target)?;
        }
        Content::Bytes(bytes) => {
            header.set_size(bytes.len() as u64);
            out.append_data(&mut header, name, bytes.as_slice())?;
        }
        Content::File(source) => {
            let file = File::open(source).with_context(|| format!("open {}", source.display()))?;
            header.set_size(file.metadata()?.len());
            out.append_data(&mut header, name, file)?;
        }
    }
    Ok(())
}

/// Hashes the bytes that pass through.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::image::{Image, ImageConfig};

    fn layer() -> Layer {
        Layer::default()
            .bytes("/etc/istio/proxy/b", "b", 0o600)
            .bytes("/a", "a", 0o755)
            .owned_by("/etc/istio", 1337, 1337)
    }

    #[test]
    fn creation_order_does_not_change_the_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let other =
            Layer::default()
                .bytes("/a", "a", 0o755)
                .bytes("/etc/istio/proxy/b", "b", 0o600);
        let other = other.owned_by("/etc/istio", 1337, 1337);
        let digest = layer().write(&dir.path().join("one")).unwrap();
        assert_eq!(digest, other.write(&dir.path().join("two")).unwrap());
        let bytes = fs::read(dir.path().join("one")).unwrap();
        assert_eq!(digest, hex(&Sha256::digest(&bytes)));
    }

    #[test]
    fn entries_have_owner_mode_no_time_and_their_parents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("layer");
        layer().write(&path).unwrap();
        let mut archive = tar::Archive::new(File::open(&path).unwrap());
        let listed: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!(header.mtime().unwrap(), 0);
                let path = entry.path().unwrap().to_string_lossy().into_owned();
                (path, header.mode().unwrap(), header.uid().unwrap())
            })
            .collect();
        let expected = [
            ("a", 0o755, 0),
            ("etc", 0o755, 0),
            ("etc/istio", 0o755, 1337),
            ("etc/istio/proxy", 0o755, 1337),
            ("etc/istio/proxy/b", 0o600, 1337),
        ];
        assert_eq!(
            listed,
            expected.map(|(path, mode, uid)| (path.to_owned(), mode, uid))
        );
    }

    #[test]
    fn rewritten_archive_has_no_timestamps() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut out = Builder::new(File::create(path("a.tar")).unwrap());
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        header.set_uid(1000);
        header.set_size(1);
        out.append_data(&mut header, "usher/Chart.yaml", &b"x"[..])
            .unwrap();
        out.into_inner().unwrap().flush().unwrap();
        crate::image::gzip(&path("a.tar"), &path("a.tgz")).unwrap();
        let again = Layer::of_tar_gz(&path("a.tgz")).unwrap();
        let expected = Layer::default().bytes("/usher/Chart.yaml", "x", 0o644);
        let digest = again.write(&path("again.tar")).unwrap();
        assert_eq!(digest, expected.write(&path("expected.tar")).unwrap());
        assert!(Layer::of_tar_gz(&path("a.tar")).is_err());
    }

    #[test]
    fn image_is_reproducible_and_names_its_layers() {
        let dir = tempfile::tempdir().unwrap();
        let layer = layer();
        let config = ImageConfig {
            entrypoint: vec!["/a".into()],
            ..ImageConfig::default()
        };
        let image = Image {
            name: "usher.test/a:1",
            layers: vec![&layer],
            config,
        };
        let archives = ["one.tar", "two.tar"].map(|name| {
            let path = dir.path().join(name);
            image.write(&path).unwrap();
            fs::read(path).unwrap()
        });
        assert_eq!(archives[0], archives[1]);
        let mut archive = tar::Archive::new(archives[0].as_slice());
        let mut text = String::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path().unwrap().ends_with("manifest.json") {
                entry.read_to_string(&mut text).unwrap();
            }
        }
        let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let digest = layer.write(&dir.path().join("layer")).unwrap();
        assert_eq!(manifest[0]["RepoTags"][0], "usher.test/a:1");
        assert_eq!(manifest[0]["Layers"][0], format!("{digest}.tar"));
    }
}
