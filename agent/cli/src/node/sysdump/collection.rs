//! What was gathered so far: redacted, listed, and no more than was asked for.

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
    place::{MANIFEST, Place},
};

use super::archive::File;
use crate::{
    data_source::{node::Node, sha256},
    failure::Failure,
    output::SysdumpReport,
};

const NO_TIME: &str = "the time was up (--timeout)";

/// A dump that is being made.
#[derive(Debug)]
pub(super) struct Collection {
    manifest: Manifest,
    files: Vec<File>,
    reads: Reads,
    /// Bytes that may still come.
    left: u64,
    end: Instant,
    is_cut: bool,
}

/// A dump.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) manifest: Manifest,
    /// Something stayed out for size or time.
    pub(super) is_cut: bool,
    list: File,
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
            left: size,
            end: Instant::now() + timeout,
            is_cut: false,
        }
    }

    /// The time that the dump says it was made.
    pub(super) const fn at_ms(&self) -> u64 {
        self.manifest.at_ms
    }

    pub(super) fn name_node(&mut self, name: &str) {
        self.manifest.node = Some(name.to_owned()).filter(|name| !name.is_empty());
    }

    pub(super) fn name_pod(&mut self, pod: manifest::Pod) {
        self.manifest.pods.push(pod);
    }

    /// Waits for a report about the node, as long as there is time, and keeps it.
    pub(super) async fn node<T: SysdumpReport>(
        &mut self,
        from: Origin,
        report: impl Future<Output = Result<T, Failure>>,
    ) {
        self.report(Place::Node(T::NAME).path(), from, report).await;
    }

    /// The same for a report about the pod that has this folder.
    pub(super) async fn pod<T: SysdumpReport>(
        &mut self,
        folder: &str,
        from: Origin,
        report: impl Future<Output = Result<T, Failure>>,
    ) {
        let command = T::NAME;
        let path = Place::Pod { folder, command }.path();
        self.report(path, from, report).await;
    }

    async fn report<T: SysdumpReport>(
        &mut self,
        path: String,
        from: Origin,
        report: impl Future<Output = Result<T, Failure>>,
    ) {
        let source = format!("usher {}", T::NAME);
        let report = tokio::time::timeout_at(self.end, report).await;
        let report = report.unwrap_or_else(|_elapsed| {
            self.is_cut = true;
            Err(Failure::unavailable(NO_TIME))
        });
        match report {
            Ok(report) => self.document(path, source, &Document::new(T::KIND, from, report)),
            Err(error) => self.missing(path, source, &error.text),
        }
    }

    /// Keeps a document, redacted.
    pub(super) fn document(&mut self, path: String, source: String, document: &impl Serialize) {
        match serde_json::to_value(document) {
            Ok(value) => self.value(path, source, value, |value, redaction| {
                redaction.document(value);
            }),
            Err(error) => self.missing(path, source, &format!("cannot be written: {error}")),
        }
    }

    /// Keeps a value, redacted in its own way.
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
            Err(error) => self.missing(path, source, &format!("cannot be written: {error}")),
        }
    }

    /// Keeps a text, redacted.
    pub(super) fn text(&mut self, path: String, source: String, text: &str) {
        let mut redaction = Redaction::new(&self.reads);
        let clean = redaction.text(text).into_owned();
        let counts = redaction.counts().clone();
        self.add(path, source, clean.into_bytes(), &counts);
    }

    /// A path in this folder that nothing has yet: with this name, or with a number before its end.
    pub(super) fn free(&self, folder: &str, name: &str) -> String {
        let is_free = |path: &String| {
            self.manifest.file(path).is_none() && self.manifest.why_not(path).is_none()
        };
        let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
        let dot = if end.is_empty() { "" } else { "." };
        let numbered = (2..).map(|number: u64| format!("{folder}{stem}-{number}{dot}{end}"));
        let mut paths = std::iter::once(format!("{folder}{name}")).chain(numbered);
        // Numbers do not end before files do.
        paths.find(is_free).unwrap_or_default()
    }

    /// Says why there is no such file.
    pub(super) fn missing(&mut self, path: String, source: String, why: &str) {
        // What an app or a server said may be in it.
        let why = Redaction::new(&self.reads).text(why).into_owned();
        self.manifest
            .missing
            .push(manifest::Missing { path, source, why });
    }

    /// Whether there is time for more.
    pub(super) fn has_time(&mut self) -> bool {
        let has_time = Instant::now() < self.end;
        self.is_cut |= !has_time;
        has_time
    }

    pub(super) fn out_of_time(&mut self, path: String, source: String) {
        self.missing(path, source, NO_TIME);
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
            let why = format!("its {bytes} bytes are more than what was left of --size");
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

    /// The list of it, and everything in order.
    pub(super) fn finish(mut self) -> Collected {
        self.manifest.sort();
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        // Texts and numbers: nothing in it can fail to be written.
        let mut content = serde_json::to_vec_pretty(&self.manifest).unwrap_or_default();
        content.push(b'\n');
        Collected {
            list: File {
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
    /// Everything, the list first: who reads an archive needs it before anything else.
    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.list).chain(&self.files)
    }

    pub(super) fn size(&self) -> u64 {
        let sizes = self.files().map(|file| file.content.len() as u64);
        sizes.sum()
    }

    /// How often rules left something out.
    pub(super) fn left_out(&self) -> u64 {
        let rules = self.manifest.redacted.iter();
        rules.flat_map(|rule| rule.files.values()).sum()
    }
}
