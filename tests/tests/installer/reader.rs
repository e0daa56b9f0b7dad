//! A runtime that continuously reads the network configuration, as containerd does after each change
//! ([go-cni](https://github.com/containerd/go-cni/blob/v1.1.13/opts.go)): files with certain extensions are sorted by
//! name, and the first one has to be complete.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use serde_json::Value;

const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];

/// The results of the reader.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) reads: usize,
    pub(crate) with_entry: usize,
    /// Invalid texts, each once.
    pub(crate) invalid: Vec<String>,
}

pub(crate) struct Reader {
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<Findings>,
}

impl Reader {
    pub(crate) fn start(networks: &Path) -> Self {
        let is_done = Arc::new(AtomicBool::new(false));
        let (networks, ends) = (networks.to_owned(), Arc::clone(&is_done));
        let thread = thread::spawn(move || {
            let mut findings = Findings::default();
            while !ends.load(Ordering::Acquire) {
                findings.read(&networks);
                // Other threads need CPU time as well.
                thread::yield_now();
            }
            findings
        });
        Self { is_done, thread }
    }

    pub(crate) fn stop(self) -> Findings {
        self.is_done.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

impl Findings {
    fn read(&mut self, networks: &Path) {
        self.reads += 1;
        let Some(path) = first(networks) else {
            self.found_invalid("there is no file");
            return;
        };
        let Ok(text) = fs::read_to_string(&path) else {
            self.found_invalid(&format!("{} has gone", path.display()));
            return;
        };
        if is_usable(&path, &text) {
            self.with_entry += usize::from(text.contains(super::host::PLUGIN));
        } else {
            self.found_invalid(&text);
        }
    }

    fn found_invalid(&mut self, text: &str) {
        if !self.invalid.iter().any(|known| known == text) {
            self.invalid.push(text.to_owned());
        }
    }
}

/// The file that the runtime uses.
pub(crate) fn first(networks: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(networks).unwrap().map(Result::unwrap);
    let paths = entries.map(|entry| entry.path());
    let is_read = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
    };
    paths.filter(is_read).min()
}

fn is_usable(path: &Path, text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return false;
    };
    let has_type = |plugin: &Value| {
        plugin["type"]
            .as_str()
            .is_some_and(|plugin| !plugin.is_empty())
    };
    if path
        .extension()
        .is_some_and(|extension| extension == "conflist")
    {
        let plugins = value["plugins"].as_array();
        value["name"].is_string()
            && plugins.is_some_and(|plugins| !plugins.is_empty() && plugins.iter().all(has_type))
    } else {
        has_type(&value)
    }
}
