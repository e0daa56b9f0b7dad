//! The cache of built programs and images.
//!
//! An entry is a directory `<name>-<key>`; the key is a hash of all its inputs. It is created under another name and
//! renamed when it is complete, so a killed build leaves nothing that looks finished; a lock file per name serializes
//! two builders of the same entry.

use std::{
    env, fmt,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The first 16 hexadecimal digits of a SHA-256 over labelled inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Collects the inputs of a [`Key`]. Labels and lengths are hashed too, so inputs cannot run into each other.
#[derive(Debug, Default)]
pub struct KeyBuilder(Sha256);

impl KeyBuilder {
    #[must_use]
    pub fn input(mut self, label: &str, content: &[u8]) -> Self {
        for part in [label.as_bytes(), content] {
            self.0.update((part.len() as u64).to_be_bytes());
            self.0.update(part);
        }
        self
    }

    pub fn file(self, path: &Path) -> Result<Self> {
        let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let label = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok(self.input(&label, &content))
    }

    #[must_use]
    pub fn finish(self) -> Key {
        let mut hex = crate::image::hex(&self.0.finalize());
        hex.truncate(16);
        Key(hex)
    }
}

/// `$USHER_CACHE_DIR`, else `$XDG_CACHE_HOME/usher`, else `$HOME/.cache/usher`; created when missing.
pub fn root() -> Result<PathBuf> {
    let root = locate(|name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    })
    .context("no place for the cache: set USHER_CACHE_DIR or HOME")?;
    fs::create_dir_all(&root).with_context(|| format!("create {}", root.display()))?;
    Ok(root)
}

fn locate(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    variable("USHER_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|base| base.join("usher")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/usher")))
}

/// The directory of an entry. If it does not exist, `build` creates it in an empty directory.
pub fn entry(name: &str, key: &Key, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    entry_in(&root()?, name, key, build)
}

fn entry_in(
    root: &Path,
    name: &str,
    key: &Key,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let done = root.join(format!("{name}-{key}"));
    if done.is_dir() {
        return Ok(done);
    }
    let lock_path = root.join(format!("{name}.lock"));
    let lock =
        File::create(&lock_path).with_context(|| format!("create {}", lock_path.display()))?;
    lock.lock()
        .with_context(|| format!("lock {}", lock_path.display()))?;
    if done.is_dir() {
        return Ok(done); // another builder was faster
    }
    let partial = root.join(format!("{name}-{key}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("remove {}", partial.display()))?;
    }
    fs::create_dir(&partial).with_context(|| format!("create {}", partial.display()))?;
    build(&partial)?;
    fs::rename(&partial, &done)
        .with_context(|| format!("rename {} to {}", partial.display(), done.display()))?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_depends_on_every_input_and_its_boundary() {
        let key = |parts: &[(&str, &str)]| {
            parts
                .iter()
                .fold(KeyBuilder::default(), |key, (label, text)| {
                    key.input(label, text.as_bytes())
                })
                .finish()
        };
        let first = key(&[("go.mod", "a"), ("go.sum", "b")]);
        assert_eq!(first, key(&[("go.mod", "a"), ("go.sum", "b")]));
        assert_eq!(first.to_string().len(), 16);
        assert_ne!(first, key(&[("go.mod", "ab"), ("go.sum", "")]));
        assert_ne!(first, key(&[("go.mod", "a"), ("main.go", "b")]));
    }

    #[test]
    fn usher_cache_dir_takes_precedence() {
        let only =
            |set: &'static str| locate(move |name| (name == set).then(|| PathBuf::from("/x")));
        assert_eq!(only("USHER_CACHE_DIR"), Some("/x".into()));
        assert_eq!(only("XDG_CACHE_HOME"), Some("/x/usher".into()));
        assert_eq!(only("HOME"), Some("/x/.cache/usher".into()));
        assert_eq!(only("PATH"), None);
    }

    #[test]
    fn failed_build_leaves_no_entry_and_the_next_one_starts_empty() {
        let root = tempfile::tempdir().unwrap();
        let key = KeyBuilder::default().finish();
        let failed = entry_in(root.path(), "thing", &key, |dir| {
            fs::write(dir.join("half"), "").unwrap();
            anyhow::bail!("killed")
        });
        assert!(failed.is_err());
        let made = entry_in(root.path(), "thing", &key, |dir| {
            assert!(fs::read_dir(dir).unwrap().next().is_none());
            Ok(fs::write(dir.join("thing"), "whole")?)
        });
        let made = made.unwrap();
        assert_eq!(fs::read_to_string(made.join("thing")).unwrap(), "whole");
        let again = entry_in(root.path(), "thing", &key, |_| panic!("built twice"));
        assert_eq!(again.unwrap(), made);
    }
}
