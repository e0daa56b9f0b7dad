//! What the node has in files and in `/proc`: for people who read a dump, not for commands.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Serialize;
use usher_client::run_dir;
use usher_inspect::sysdump::place::plain;

use super::collection::Collection;
use crate::{
    data_source::node::{Node, Target},
    node::cleanup::conf_dirs,
};

/// What is read of one text at most.
const LONGEST: u64 = 8 * 1024 * 1024;
/// What is read of a command line at most.
const LONGEST_LINE: u64 = 32 * 1024;
/// Processes of one container that are listed.
const PROCESSES: usize = 256;
/// Files of a directory that are looked at.
const FILES: usize = 64;
/// Network configurations; what else is in their directory may be credentials of a network plugin.
const CONFIGURATIONS: [&str; 3] = ["conf", "conflist", "json"];
const CNI_LOGS: [&str; 2] = ["cni.log", "cni.log.1"];

/// The kernel and how its cgroups are mounted.
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

/// A process of a container.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    container: Option<String>,
    pid: i32,
    name: Option<String>,
    argv: Vec<String>,
}

/// The processes of a pod's containers.
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
    let kept = [
        run_dir::NODE_ANNOTATIONS,
        run_dir::NAMESPACES,
        run_dir::CONFIG,
        run_dir::TIMELINE,
    ];
    for name in kept.iter().chain(&CNI_LOGS) {
        let path = node.args.run_dir.join(name);
        file(&path, &format!("run/{name}"), collection);
    }
}

/// The processes of a pod, as they are called by themselves; secrets go where everything is redacted.
pub(super) fn processes(node: &Node, target: &Target) -> Processes {
    let of_container = target.containers.iter().flat_map(|container| {
        let pids = container.processes.iter().take(PROCESSES);
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
    // A process that has ended has none.
    let line = bounded(path, LONGEST_LINE).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    let words = words.filter(|word| !word.is_empty());
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn kernel(node: &Node) -> Kernel {
    let names = nix::sys::utsname::uname().ok();
    let of = |name: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        let name = names.as_ref().map(name).unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let mounts = bounded(
        &node.proc.path(usher_core::base::id::Pid(1), "mounts"),
        LONGEST,
    );
    let mounts = String::from_utf8_lossy(&mounts.unwrap_or_default()).into_owned();
    let is_cgroup = |line: &&str| {
        let mut words = line.split(' ').skip(2);
        words.next().is_some_and(|kind| kind.starts_with("cgroup"))
    };
    let cgroups = mounts.lines().filter(is_cgroup).map(str::to_owned);
    Kernel {
        system: of(nix::sys::utsname::UtsName::sysname),
        release: of(nix::sys::utsname::UtsName::release),
        version: of(nix::sys::utsname::UtsName::version),
        machine: of(nix::sys::utsname::UtsName::machine),
        cgroups: cgroups.collect(),
    }
}

/// The network configurations of a directory. One that is JSON is redacted as a document, others as texts.
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
        // Another directory may have a file of that name.
        let at = collection.free("cni/", &plain(&name.display().to_string()));
        let text = bounded(&path, LONGEST).ok();
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
        if end.is_some_and(|end| CONFIGURATIONS.contains(&end)) {
            names.push(name);
        }
    }
    names.sort();
    names.truncate(FILES);
    Ok(names)
}

fn file(path: &Path, at: &str, collection: &mut Collection) {
    let source = path.display().to_string();
    match bounded(path, LONGEST) {
        Ok(text) => collection.text(at.to_owned(), source, &String::from_utf8_lossy(&text)),
        Err(error) => collection.missing(at.to_owned(), source, &error.to_string()),
    }
}

/// A file, or the beginning of one that is longer than any of these should be.
fn bounded(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?
        .take(longest)
        .read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
