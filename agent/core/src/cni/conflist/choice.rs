//! Which file of a directory is the configuration of the node's network.
//!
//! Both runtimes sort the names of `.conf`, `.conflist` and `.json` files and take the first
//! ([go-cni](https://github.com/containerd/go-cni/blob/v1.1.13/opts.go),
//! [ocicni](https://github.com/cri-o/ocicni/blob/v0.4.3/pkg/ocicni/ocicni.go)). They differ in what is before it:
//! CRI-O skips a file that it cannot read, containerd has no network at all until it is gone.

use super::{Error, Kind, document::Document};

/// What a directory's files come to.
#[derive(Debug)]
pub struct Choice<'a> {
    pub primary: Option<Primary<'a>>,
    /// The files that sort before it, or all when there is none, and why it is none of them.
    pub skipped: Vec<Skipped<'a>>,
}

/// The configuration that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Primary<'a> {
    /// The name of its file.
    pub name: &'a str,
    pub kind: Kind,
}

/// A file that is not the one.
#[derive(Debug)]
pub struct Skipped<'a> {
    pub name: &'a str,
    pub why: Why,
}

/// Why a file is not the primary configuration.
#[derive(Debug)]
pub enum Why {
    /// The runtimes do not read files with such a name.
    Extension,
    /// Only our plugin is in it.
    Ours,
    /// The runtimes cannot read it.
    Unusable(Error),
    /// The runtimes can, but an entry of ours in it would not do.
    Unsupported(Error),
}

impl Choice<'_> {
    /// The file that leaves a node with containerd without a network.
    pub fn stops_containerd(&self) -> Option<&Skipped<'_>> {
        let stops = |skipped: &&Skipped<'_>| matches!(skipped.why, Why::Unusable(_));
        self.skipped.iter().find(stops)
    }
}

/// Chooses among the files of a directory, given as names and texts in any order. `plugin` is the type of our own.
///
/// A configuration that the runtimes use and we cannot is not passed over for the next one, which no runtime reads:
/// then there is no primary.
pub fn choose<'a>(files: &[(&'a str, &str)], plugin: &str) -> Choice<'a> {
    let mut files = files.to_vec();
    files.sort_unstable_by_key(|(name, _)| *name);
    let mut skipped = Vec::new();
    for (name, text) in files {
        let Some(kind) = kind(name) else {
            let why = Why::Extension;
            skipped.push(Skipped { name, why });
            continue;
        };
        let why = match Document::read(text, kind) {
            Ok(Document::Conf(conf)) if conf.plugin == plugin => Why::Ours,
            Ok(Document::List(list)) if list.require_chain(plugin).is_err() => Why::Ours,
            Ok(_) => {
                let primary = Some(Primary { name, kind });
                return Choice { primary, skipped };
            }
            Err(error @ Error::Version { .. }) => {
                let why = Why::Unsupported(error);
                skipped.push(Skipped { name, why });
                break;
            }
            Err(error) => Why::Unusable(error),
        };
        skipped.push(Skipped { name, why });
    }
    Choice {
        primary: None,
        skipped,
    }
}

/// What the runtimes take a file for, by the end of its name.
pub(super) fn kind(name: &str) -> Option<Kind> {
    match name.rsplit_once('.')?.1 {
        "conflist" => Some(Kind::ConfList),
        "conf" | "json" => Some(Kind::Conf),
        _ => None,
    }
}
