//! What `usher sysdump` wrote, read back: an archive, or the folder that one was unpacked to.
//!
//! It comes from somebody else, so nothing in it is believed: it is never unpacked, what is read of it is bounded, each
//! file is compared with its checksum, and a path that leads out of it is not followed.

mod archive;

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use usher_core::admin::Document;
use usher_inspect::{
    pod_selector::{self, Candidate},
    sysdump::{
        Manifest,
        manifest::{API_VERSION, Pod},
        measure,
        place::{self, MANIFEST, Place},
    },
};

use crate::failure::Failure;

/// A file of a dump that is larger is not read; all of them together have no more, unless somebody asked for that.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;
/// A list that is larger is not read: each pod has some 4 KiB in it, and takes more of memory than that.
const LARGEST_LIST: u64 = 16 * 1024 * 1024;

/// A dump.
#[derive(Debug)]
pub(crate) struct Dump {
    path: PathBuf,
    is_folder: bool,
    pub(crate) manifest: Manifest,
}

impl Dump {
    /// Reads the list of a dump.
    ///
    /// # Errors
    /// When it is none, or one of another version.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let absent = |why: String| Failure::unavailable(format!("{shown}: {why}"));
        let is_folder = fs::metadata(path)
            .map_err(|error| absent(error.to_string()))?
            .is_dir();
        let text = read(path, is_folder, MANIFEST, LARGEST_LIST)
            .map_err(|error| absent(format!("is no sysdump: {error}")))?
            .ok_or_else(|| absent(format!("is no sysdump: it has no {MANIFEST}")))?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| absent(format!("is no sysdump: {MANIFEST}: {error}")))?;
        if manifest.api_version != API_VERSION {
            return Err(absent(format!(
                "is a sysdump of another version of usher ({}); this one reads {API_VERSION}",
                manifest.api_version
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            is_folder,
            manifest,
        })
    }

    /// What it is, for people.
    pub(crate) fn described(&self) -> String {
        let node = self.manifest.node.as_deref();
        let node = node.map_or_else(String::new, |node| format!(" of node {node}"));
        let made = measure::time_shown(self.manifest.at_ms);
        format!("{}: answers{node} from {made}", self.path.display())
    }

    /// The report of a command, about a pod or about the node.
    ///
    /// # Errors
    /// When it is not one pod that is meant, or the dump has no such report.
    pub(crate) fn report<T: DeserializeOwned>(
        &self,
        command: &str,
        pod: Option<&str>,
    ) -> Result<T, Failure> {
        let path = match pod {
            Some(given) => self.find(given)?.place(command).path(),
            None => Place::Node(command).path(),
        };
        let content = self.content(&path)?;
        let report: Document<T> = serde_json::from_slice(&content)
            .map_err(|error| self.broken(&path, &format!("is not understood: {error}")))?;
        Ok(report.data)
    }

    /// The pod that is meant, by all that a pod of a node can be named by.
    ///
    /// # Errors
    /// When it is none, or several.
    pub(crate) fn find(&self, given: &str) -> Result<&Pod, Failure> {
        let pods = &self.manifest.pods;
        let candidates: Vec<Candidate> = pods.iter().map(candidate).collect();
        let place = pod_selector::choose(given, &candidates)?;
        let gone = || Failure::unavailable("the list of the dump has changed");
        pods.get(place).ok_or_else(gone)
    }

    /// A file of the dump, which is what it was when it was listed.
    ///
    /// # Errors
    /// When there is none, with the reason that the dump gives, or it has changed.
    fn content(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let Some(listed) = self.manifest.file(path) else {
            let why = self.manifest.why_not(path);
            let why = why.unwrap_or("the version of usher that made it did not ask for that");
            return Err(self.broken(path, &format!("is not in it: {why}")));
        };
        let content = read(&self.path, self.is_folder, path, LARGEST_FILE)
            .map_err(|error| self.broken(path, &error.to_string()))?
            .ok_or_else(|| self.broken(path, "is listed and missing"))?;
        if sha256(&content) != listed.sha256 {
            return Err(self.broken(path, "is not what was listed: its checksum differs"));
        }
        Ok(content)
    }

    fn broken(&self, path: &str, why: &str) -> Failure {
        Failure::unavailable(format!("{}: {path} {why}", self.path.display()))
    }
}

/// Checksum in hexadecimal.
pub(crate) fn sha256(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn candidate(pod: &Pod) -> Candidate {
    let Pod {
        uid,
        namespace,
        name,
        ips,
        containers,
        folder: _,
    } = pod;
    let pids = containers.iter().flat_map(|container| &container.pids);
    Candidate {
        uid: uid.clone(),
        name: (!name.is_empty()).then(|| format!("{namespace}/{name}")),
        ips: ips.iter().filter_map(|ip| ip.parse().ok()).collect(),
        containers: containers
            .iter()
            .map(|container| container.id.clone())
            .collect(),
        pids: pids.copied().collect(),
    }
}

/// One file; None where there is none.
fn read(dump: &Path, is_folder: bool, path: &str, largest: u64) -> io::Result<Option<Vec<u8>>> {
    if !place::is_below(path) {
        return Err(io::Error::other("the path leads out of the dump"));
    }
    if is_folder {
        in_folder(dump, path, largest)
    } else {
        archive::read(dump, path, largest)
    }
}

/// A link could lead anywhere, so it is none of the dump's files. What is no regular file may never end.
fn in_folder(dump: &Path, path: &str, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = dump.to_owned();
    for word in path.split('/') {
        file.push(word);
        match fs::symlink_metadata(&file) {
            Ok(found) if found.is_symlink() => {
                return Err(io::Error::other("a link is in its path"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    // A pipe is not waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags.bits()).open(&file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    bounded(file, largest).map(Some)
}

fn bounded(from: impl Read, largest: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(largest + 1).read_to_end(&mut content)?;
    if content.len() as u64 > largest {
        let most = measure::shown(largest);
        return Err(io::Error::other(format!("larger than {most}")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
