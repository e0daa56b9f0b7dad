//! Collects files of the node and data of `/proc`. They are for people; no command reads them.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Serialize;
use usher_client::run_dir;
use usher_inspect::sysdump::path::safe_name;

use super::collection::Collection;
use crate::{
    data_source::node::{Node, Target},
    node::cleanup::conf_dirs,
};

const MAX_TEXT: u64 = 8 * 1024 * 1024;
const MAX_COMMAND_LINE: u64 = 32 * 1024;
/// Processes per container.
const MAX_PROCESSES: usize = 256;
/// Files per directory.
const MAX_FILES: usize = 64;
/// Extensions of CNI configurations. Other files in the directory may be credentials of a CNI plugin.
const CONF_EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];
const CNI_LOGS: [&str; 2] = ["cni.log", "cni.log.1"];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Kernel {
    system: String,
    release: String,
    version: String,
    machine: String,
    /// Mounts of cgroup file systems.
    cgroups: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    container: Option<String>,
    pid: i32,
    name: Option<String>,
    argv: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Processes {
    items: Vec<Process>,
}

pub(super) fn gather(node: &Node, collection: &mut Collection) {
    let source = "uname and /proc/1/mounts".to_owned();
    collection.document("node/kernel.json".to_owned(), source, &kernel(node));
    for folder in conf_dirs() {
        configurations(&folder, collection);
    }
    file(&node.args.config, "node/config.yaml", collection);
    let saved = [
        run_dir::NODE_ANNOTATIONS,
        run_dir::NODE_LABELS,
        run_dir::NAMESPACES,
        run_dir::CONFIG,
        run_dir::TIMELINE,
    ];
    for name in saved.iter().chain(&CNI_LOGS) {
        let path = node.args.run_dir.join(name);
        file(&path, &format!("run/{name}"), collection);
    }
}

/// The processes of a pod with their command lines, which the collection redacts.
pub(super) fn processes(node: &Node, target: &Target) -> Processes {
    let of_container = target.containers.iter().flat_map(|container| {
        let pids = container.processes.iter().take(MAX_PROCESSES);
        pids.filter_map(|pid| {
            let process = Process {
                container: container.name.clone(),
                pid: pid.0,
                name: node.proc.name(*pid).ok().flatten(),
                argv: argv(&node.proc.path(*pid, "cmdline")),
            };
            target.has(&node.proc, container, *pid).then_some(process)
        })
    });
    let mut items: Vec<Process> = of_container.collect();
    items.sort_by_key(|process| process.pid);
    Processes { items }
}

fn argv(path: &Path) -> Vec<String> {
    // A process that has exited has no command line.
    let line = bounded(path, MAX_COMMAND_LINE).unwrap_or_default();
    line.split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn kernel(node: &Node) -> Kernel {
    let names = nix::sys::utsname::uname().ok();
    let field = |name: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        let name = names.as_ref().map(name).unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let mounts = bounded(
        &node.proc.path(usher_core::base::id::Pid(1), "mounts"),
        MAX_TEXT,
    );
    let mounts = String::from_utf8_lossy(&mounts.unwrap_or_default()).into_owned();
    let is_cgroup = |line: &&str| {
        let mut words = line.split(' ').skip(2);
        words.next().is_some_and(|kind| kind.starts_with("cgroup"))
    };
    let cgroups = mounts.lines().filter(is_cgroup).map(str::to_owned);
    Kernel {
        system: field(nix::sys::utsname::UtsName::sysname),
        release: field(nix::sys::utsname::UtsName::release),
        version: field(nix::sys::utsname::UtsName::version),
        machine: field(nix::sys::utsname::UtsName::machine),
        cgroups: cgroups.collect(),
    }
}

/// Collects the CNI configurations of a directory. JSON is redacted as a document, anything else as text.
fn configurations(folder: &Path, collection: &mut Collection) {
    let names = match names(folder) {
        Ok(names) => names,
        // Most nodes have only one of the directories.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            let source = folder.display().to_string();
            return collection.missing("cni".to_owned(), source, &error.to_string());
        }
    };
    for name in names {
        let path = folder.join(&name);
        // Another directory may have a file with the same name.
        let at = collection.free("cni/", &safe_name(&name.display().to_string()));
        let text = bounded(&path, MAX_TEXT).ok();
        match text.and_then(|text| serde_json::from_slice(&text).ok()) {
            Some(value) => {
                let source = path.display().to_string();
                collection.value(at, source, value, |value, redaction| {
                    redaction.document(value);
                });
            }
            None => file(&path, &at, collection),
        }
    }
}

fn names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = PathBuf::from(entry?.file_name());
        let end = name.extension().and_then(|end| end.to_str());
        if end.is_some_and(|end| CONF_EXTENSIONS.contains(&end)) {
            names.push(name);
        }
    }
    names.sort();
    names.truncate(MAX_FILES);
    Ok(names)
}

fn file(path: &Path, at: &str, collection: &mut Collection) {
    let source = path.display().to_string();
    match bounded(path, MAX_TEXT) {
        Ok(text) => collection.text(at.to_owned(), source, &String::from_utf8_lossy(&text)),
        Err(error) => collection.missing(at.to_owned(), source, &error.to_string()),
    }
}

/// The content of a file, up to a limit that no valid file exceeds.
fn bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?
        .take(limit)
        .read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
