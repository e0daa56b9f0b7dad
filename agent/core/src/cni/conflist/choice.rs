//! Which file of a directory is the configuration of the node's network.
//!
//! Both runtimes sort the names of `.conf`, `.conflist` and `.json` files and use the first
//! ([go-cni](https://github.com/containerd/go-cni/blob/v1.1.13/opts.go),
//! [ocicni](https://github.com/cri-o/ocicni/blob/v0.4.3/pkg/ocicni/ocicni.go)). They differ for an unreadable file
//! before it: CRI-O skips the file, containerd has no network until the file is removed.

use super::{Error, Kind, document::Document};

/// The result for the files of a directory.
#[derive(Debug)]
pub struct Choice<'a> {
    pub primary: Option<Primary<'a>>,
    /// The files that sort before it, or all files without one, each with the reason.
    pub skipped: Vec<Skipped<'a>>,
}

/// The configuration that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Primary<'a> {
    /// The name of its file.
    pub name: &'a str,
    pub kind: Kind,
}

/// A file that is not the primary configuration.
#[derive(Debug)]
pub struct Skipped<'a> {
    pub name: &'a str,
    pub why: Why,
}

/// Why a file is not the primary configuration.
#[derive(Debug)]
pub enum Why {
    /// The runtimes ignore files with this extension.
    Extension,
    /// It contains usher's plugin only.
    Ours,
    /// The runtimes cannot read it.
    Unusable(Error),
    /// The runtimes can read it, but usher cannot add its entry.
    Unsupported(Error),
}

impl Choice<'_> {
    /// The file that leaves a node with containerd without a network.
    pub fn stops_containerd(&self) -> Option<&Skipped<'_>> {
        let stops = |skipped: &&Skipped<'_>| matches!(skipped.why, Why::Unusable(_));
        self.skipped.iter().find(stops)
    }
}

/// Chooses among the files of a directory, given as names and texts in any order. `plugin` is the type of usher's
/// plugin.
///
/// A configuration that the runtimes use and usher cannot is not skipped, because no runtime reads the next one: then
/// there is no primary configuration.
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

/// The kind that the runtimes assume for a file name.
pub(super) fn kind(name: &str) -> Option<Kind> {
    match name.rsplit_once('.')?.1 {
        "conflist" => Some(Kind::ConfList),
        "conf" | "json" => Some(Kind::Conf),
        _ => None,
    }
}
