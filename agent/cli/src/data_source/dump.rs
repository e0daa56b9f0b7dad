//! Reads a sysdump: an archive, or the directory that it was unpacked to.
//!
//! A sysdump is untrusted input: it is never unpacked, every read is bounded, each file is compared with its checksum, and a
//! path that leads out of the sysdump is not followed.

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
    explain::write_time,
    pod_selector::{self, Candidate, Names},
    sysdump::{
        Manifest,
        manifest::{API_VERSION, Pod},
        measure,
        path::{self, MANIFEST},
    },
};

use crate::failure::Failure;

/// Limit of a file, which is the default of `usher sysdump --size`.
const MAX_FILE: u64 = 64 * 1024 * 1024;
/// Limit of the manifest. A pod takes some 4 KiB in the file, and more in memory.
const MAX_MANIFEST: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Dump {
    path: PathBuf,
    is_folder: bool,
    pub(crate) manifest: Manifest,
}

impl Dump {
    /// Opens a sysdump and reads its manifest.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let unavailable = |why: String| Failure::unavailable(format!("{shown}: {why}"));
        let is_folder = fs::metadata(path)
            .map_err(|error| unavailable(error.to_string()))?
            .is_dir();
        let text = read(path, is_folder, MANIFEST, MAX_MANIFEST)
            .map_err(|error| unavailable(format!("not a sysdump: {error}")))?
            .ok_or_else(|| unavailable(format!("not a sysdump: {MANIFEST} is missing")))?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| unavailable(format!("not a sysdump: {MANIFEST}: {error}")))?;
        if manifest.api_version != API_VERSION {
            return Err(unavailable(format!(
                "unsupported sysdump version {}; this version of usher reads {API_VERSION}",
                manifest.api_version
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            is_folder,
            manifest,
        })
    }

    /// The node and the time of the sysdump, as text.
    pub(crate) fn described(&self) -> String {
        let node = self
            .manifest
            .node
            .as_deref()
            .map_or_else(String::new, |node| format!(" of node {node}"));
        let created = write_time(self.manifest.at_ms);
        format!("{}: sysdump{node}, created {created}", self.path.display())
    }

    /// The stored report of a command, about a pod or about the node.
    pub(crate) fn report<T: DeserializeOwned>(
        &self,
        command: &str,
        pod: Option<&str>,
    ) -> Result<T, Failure> {
        let pod = pod.map(|given| self.find(given)).transpose()?;
        let path = path::document(pod.map(|pod| &pod.folder[..]), command);
        let content = self.content(&path)?;
        let report: Document<T> = serde_json::from_slice(&content)
            .map_err(|error| self.broken(&path, &format!("is invalid: {error}")))?;
        Ok(report.data)
    }

    /// The pod that the argument selects.
    pub(crate) fn find(&self, given: &str) -> Result<&Pod, Failure> {
        let pods = &self.manifest.pods;
        let candidates: Vec<Candidate> = pods.iter().map(candidate).collect();
        let index = pod_selector::select(given, Names::Parts, &candidates)?;
        pods.get(index)
            .ok_or_else(|| Failure::unavailable("the manifest of the sysdump has changed"))
    }

    /// The content of a file, compared with its checksum.
    fn content(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let Some(listed) = self.manifest.file(path) else {
            let why = self.manifest.why_not(path);
            let why =
                why.unwrap_or("the version of usher that created the sysdump does not collect it");
            return Err(self.broken(path, &format!("is missing: {why}")));
        };
        let content = read(&self.path, self.is_folder, path, MAX_FILE)
            .map_err(|error| self.broken(path, &error.to_string()))?
            .ok_or_else(|| self.broken(path, "is in the manifest, but not in the sysdump"))?;
        if sha256(&content) != listed.sha256 {
            return Err(self.broken(path, "was changed: its checksum differs"));
        }
        Ok(content)
    }

    fn broken(&self, path: &str, why: &str) -> Failure {
        Failure::unavailable(format!("{}: {path} {why}", self.path.display()))
    }
}

/// SHA-256 in hexadecimal.
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

/// One file; None if it does not exist.
fn read(dump: &Path, is_folder: bool, path: &str, largest: u64) -> io::Result<Option<Vec<u8>>> {
    if !path::is_inside(path) {
        return Err(io::Error::other("the path leads out of the sysdump"));
    }
    if is_folder {
        in_folder(dump, path, largest)
    } else {
        archive::read(dump, path, largest)
    }
}

/// Reads from a directory. Symbolic links could lead anywhere, and a special file may never end, so both are rejected.
fn in_folder(dump: &Path, path: &str, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = dump.to_owned();
    for word in path.split('/') {
        file.push(word);
        match fs::symlink_metadata(&file) {
            Ok(found) if found.is_symlink() => {
                return Err(io::Error::other("a symbolic link is in the path"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    // Do not block on a named pipe.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags.bits()).open(&file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    bounded(file, largest).map(Some)
}

fn bounded(from: impl Read, largest: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(largest + 1).read_to_end(&mut content)?;
    if content.len() as u64 > largest {
        let limit = measure::size_text(largest);
        return Err(io::Error::other(format!("larger than {limit}")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
