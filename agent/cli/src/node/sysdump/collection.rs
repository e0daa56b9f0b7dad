//! The files of a sysdump while it is collected: redacted, listed in the manifest, and within the limits.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use usher_core::{
    admin::{Document, Origin},
    recipe::Reads,
    settings::config::Config,
};
use usher_inspect::sysdump::{
    Manifest, Redaction, Rule, manifest,
    path::{self, MANIFEST},
};

use super::archive::File;
use crate::{
    data_source::{node::Node, sha256},
    failure::Failure,
    output::SysdumpReport,
};

const TIMED_OUT: &str = "the timeout expired (--timeout)";

/// A sysdump while it is collected.
#[derive(Debug)]
pub(super) struct Collection {
    manifest: Manifest,
    files: Vec<File>,
    reads: Reads,
    /// Bytes left of `--size`.
    left: u64,
    end: Instant,
    is_cut: bool,
}

/// A complete sysdump.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) manifest: Manifest,
    /// Whether a limit omitted content.
    pub(super) is_cut: bool,
    manifest_file: File,
    files: Vec<File>,
}

impl Collection {
    pub(super) fn new(at_ms: u64, size: u64, timeout: Duration, node: &Node) -> Self {
        let text = std::fs::read_to_string(&node.args.config).unwrap_or_default();
        let config = Config::parse("", &text).unwrap_or_default();
        Self {
            manifest: Manifest::new(at_ms, env!("CARGO_PKG_VERSION")),
            files: Vec::new(),
            reads: config.reads(),
            // The dump is in memory until it is complete.
            left: size.min(crate::MEMORY.limit() as u64 / 2),
            end: Instant::now() + timeout,
            is_cut: false,
        }
    }

    /// The time that the sysdump is stamped with.
    pub(super) const fn at_ms(&self) -> u64 {
        self.manifest.at_ms
    }

    pub(super) fn name_node(&mut self, name: &str) {
        self.manifest.node = Some(name.to_owned()).filter(|name| !name.is_empty());
    }

    pub(super) fn name_pod(&mut self, pod: manifest::Pod) {
        self.manifest.pods.push(pod);
    }

    /// Adds a report about the node, or about the pod with this folder, if it is ready before the timeout.
    pub(super) async fn report<T: SysdumpReport>(
        &mut self,
        folder: Option<&str>,
        from: Origin,
        report: impl Future<Output = Result<T, Failure>>,
    ) {
        let path = path::document(folder, T::NAME);
        let source = format!("usher {}", T::NAME);
        let report = tokio::time::timeout_at(self.end, report)
            .await
            .unwrap_or_else(|_elapsed| {
                self.is_cut = true;
                Err(Failure::unavailable(TIMED_OUT))
            });
        match report {
            Ok(report) => self.document(path, source, &Document::new(T::KIND, from, report)),
            Err(error) => self.missing(path, source, &error.text),
        }
    }

    /// Adds a document, redacted.
    pub(super) fn document(&mut self, path: String, source: String, document: &impl Serialize) {
        match serde_json::to_value(document) {
            Ok(value) => self.value(path, source, value, |value, redaction| {
                redaction.document(value);
            }),
            Err(error) => self.missing(path, source, &format!("cannot be serialized: {error}")),
        }
    }

    /// Adds a value, redacted by `redact`.
    pub(super) fn value(
        &mut self,
        path: String,
        source: String,
        mut value: Value,
        redact: impl FnOnce(&mut Value, &mut Redaction<'_>),
    ) {
        let mut redaction = Redaction::new(&self.reads);
        redact(&mut value, &mut redaction);
        let counts = redaction.counts().clone();
        match serde_json::to_vec_pretty(&value) {
            Ok(mut content) => {
                content.push(b'\n');
                self.add(path, source, content, &counts);
            }
            Err(error) => self.missing(path, source, &format!("cannot be serialized: {error}")),
        }
    }

    /// Adds a text, redacted.
    pub(super) fn text(&mut self, path: String, source: String, text: &str) {
        let mut redaction = Redaction::new(&self.reads);
        let clean = redaction.text(text).into_owned();
        let counts = redaction.counts().clone();
        self.add(path, source, clean.into_bytes(), &counts);
    }

    /// An unused path in this folder: the name itself, or the name with a number before its extension.
    pub(super) fn free(&self, folder: &str, name: &str) -> String {
        let is_free = |path: &String| {
            self.manifest.file(path).is_none() && self.manifest.why_not(path).is_none()
        };
        let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
        let dot = if end.is_empty() { "" } else { "." };
        let numbered = (2..).map(|number: u64| format!("{folder}{stem}-{number}{dot}{end}"));
        let mut paths = std::iter::once(format!("{folder}{name}")).chain(numbered);
        // The numbers are unlimited, so a free path exists.
        paths.find(is_free).unwrap_or_default()
    }

    pub(super) fn missing(&mut self, path: String, source: String, why: &str) {
        // The reason may quote an app or a server.
        let why = Redaction::new(&self.reads).text(why).into_owned();
        self.manifest
            .missing
            .push(manifest::Missing { path, source, why });
    }

    pub(super) fn has_time(&mut self) -> bool {
        let has_time = Instant::now() < self.end;
        self.is_cut |= !has_time;
        has_time
    }

    pub(super) fn out_of_time(&mut self, path: String, source: String) {
        self.missing(path, source, TIMED_OUT);
    }

    fn add(
        &mut self,
        path: String,
        source: String,
        content: Vec<u8>,
        counts: &BTreeMap<Rule, u64>,
    ) {
        let bytes = content.len() as u64;
        let Some(left) = self.left.checked_sub(bytes) else {
            self.is_cut = true;
            let why = format!("its {bytes} bytes exceed the rest of --size");
            return self.missing(path, source, &why);
        };
        self.left = left;
        self.manifest.redacted(&path, counts);
        self.manifest.files.push(manifest::File {
            path: path.clone(),
            source,
            bytes,
            sha256: sha256(&content),
        });
        self.files.push(File { path, content });
    }

    /// Sorts everything and creates the manifest.
    pub(super) fn finish(mut self) -> Collected {
        self.manifest.sort();
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        // The manifest has only texts and numbers, which can always be serialized.
        let mut content = serde_json::to_vec_pretty(&self.manifest).unwrap_or_default();
        content.push(b'\n');
        Collected {
            manifest_file: File {
                path: MANIFEST.to_owned(),
                content,
            },
            manifest: self.manifest,
            is_cut: self.is_cut,
            files: self.files,
        }
    }
}

impl Collected {
    /// All files, the manifest first: a reader of the archive needs it before the others.
    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.manifest_file).chain(&self.files)
    }

    pub(super) fn size(&self) -> u64 {
        let sizes = self.files().map(|file| file.content.len() as u64);
        sizes.sum()
    }

    pub(super) fn redactions(&self) -> u64 {
        let rules = self.manifest.redacted.iter();
        rules.flat_map(|rule| rule.files.values()).sum()
    }
}
