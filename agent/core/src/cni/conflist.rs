//! The entry of usher's plugin in a CNI configuration: text in, text out.
//!
//! A runtime reads its network from one file, and a file that it cannot read takes the network of the whole node
//! away ([libcni's parser](https://github.com/containernetworking/cni/blob/v1.3.0/libcni/conf.go) is its judge).
//! So this module changes as little as it can: it finds where the elements of `plugins` lie and touches that
//! array only. Order of keys, spacing, line ends and numbers of everything else stay byte for byte, which
//! a parse and a re-serialisation would not keep, and an entry that was appended can be removed without a trace.
//!
//! What is refused ([`Error`]) is what libcni would refuse, and what an entry of ours would make unusable.
//! Bytes that are no UTF-8, and how files are read and replaced, are for the caller.

mod choice;
mod document;
mod entry;
mod error;

use serde_json::Value;

use self::document::{Conf, Document, List};
pub use self::{
    choice::{Choice, Primary, Skipped, Why, choose},
    entry::Entry,
    error::Error,
};
use crate::cni::json_span;
pub use crate::cni::json_span::Shape;

/// A longer text is no configuration of a network.
pub const MAX_LENGTH: usize = 1024 * 1024;

/// libcni takes any name, and hand-written files often have none; Istio's installer gives them this one.
const DEFAULT_NAME: &str = "\"k8s-pod-network\"";

/// What a file's extension says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `.conf` and `.json`: one plugin. With an entry of ours it becomes a list, and its file has to be called
    /// `.conflist`.
    Conf,
    /// `.conflist`: plugins one after the other.
    ConfList,
}

/// What has to be done with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Nothing: it is right already.
    Unchanged,
    /// This is to be its text, and a list.
    Text(String),
    /// Nothing would be left but an empty list, which is no configuration: the file was ours alone.
    NothingLeft,
}

/// How our entry stands in a list.
#[derive(Debug)]
pub enum State {
    /// Once, last, and as it should be.
    Installed,
    /// Not there. So is it in a file that is no list.
    Absent,
    Stale,
    /// There, with another plugin after it.
    NotLast,
    Repeated {
        count: usize,
    },
    /// The runtimes cannot use this file, or we cannot.
    Unusable(Error),
}

/// The types of a configuration's plugins, in order: the names of their binaries. Empty where the text is invalid.
pub fn types(text: &str) -> Vec<String> {
    let parsed: Value = serde_json::from_str(text).unwrap_or_default();
    let name = |plugin: &Value| plugin["type"].as_str().map(str::to_owned);
    match parsed["plugins"].as_array() {
        Some(plugins) => plugins.iter().filter_map(name).collect(),
        None => name(&parsed).into_iter().collect(),
    }
}

/// Puts the entry at the end of the list, once; a single configuration becomes a list.
///
/// # Errors
/// Any [`Error`]; then the file is better left alone.
pub fn insert(text: &str, kind: Kind, entry: &Entry) -> Result<Edit, Error> {
    match Document::read(text, kind)? {
        Document::Conf(conf) if conf.plugin == entry.plugin() => Err(Error::Alone),
        Document::Conf(conf) => grown(as_list(text, &conf, entry)),
        Document::List(list) => {
            list.require_chain(entry.plugin())?;
            match state(text, &list, entry) {
                State::Installed => Ok(Edit::Unchanged),
                _ => grown(appended(text, &list, entry)),
            }
        }
    }
}

/// Takes every entry of this plugin out of the list, whatever its author and even if the list is invalid otherwise.
/// A configuration that is no list has no entry, unless all of it is ours.
///
/// # Errors
/// [`Error::TooLong`], [`Error::Json`] or [`Error::Shape`]: it cannot be seen what is in it.
pub fn remove(text: &str, plugin: &str) -> Result<Edit, Error> {
    let found = document::plugins(text)?;
    let Some(array) = found.array else {
        return Ok(if found.alone.as_deref() == Some(plugin) {
            Edit::NothingLeft
        } else {
            Edit::Unchanged
        });
    };
    let is_ours = |index: usize| array.types[index].as_deref() == Some(plugin);
    let ours = (0..array.types.len()).filter(|index| is_ours(*index));
    match ours.count() {
        0 => Ok(Edit::Unchanged),
        count if count == array.types.len() => Ok(Edit::NothingLeft),
        _ => {
            let left = json_span::without(text, &array.at, &array.elements, is_ours);
            Ok(Edit::Text(spliced(text, &array.at, &left)))
        }
    }
}

/// How the entry stands in this file.
pub fn check(text: &str, kind: Kind, entry: &Entry) -> State {
    match Document::read(text, kind) {
        Ok(Document::Conf(conf)) if conf.plugin == entry.plugin() => State::Unusable(Error::Alone),
        Ok(Document::Conf(_)) => State::Absent,
        Ok(Document::List(list)) => match list.require_chain(entry.plugin()) {
            Ok(()) => state(text, &list, entry),
            Err(error) => State::Unusable(error),
        },
        Err(error) => State::Unusable(error),
    }
}

fn state(text: &str, list: &List, entry: &Entry) -> State {
    let ours: Vec<usize> = list.of(entry.plugin()).collect();
    let Some(index) = ours.last() else {
        return State::Absent;
    };
    if ours.len() > 1 {
        State::Repeated { count: ours.len() }
    } else if index + 1 != list.elements.len() {
        State::NotLast
    } else if entry.is(&text[list.elements[*index].clone()]) {
        State::Installed
    } else {
        State::Stale
    }
}

fn grown(text: String) -> Result<Edit, Error> {
    let length = text.len();
    if length > MAX_LENGTH {
        return Err(Error::Grown { length });
    }
    Ok(Edit::Text(text))
}

fn appended(text: &str, list: &List, entry: &Entry) -> String {
    let is_ours = |index: usize| list.plugins[index] == entry.plugin();
    let kept = json_span::without(text, &list.at, &list.elements, is_ours);
    // Behind the last element that stays: what follows it is white space and the bracket.
    let tail = list.elements[list.elements.len() - 1].end..list.at.end;
    let (head, tail) = kept.split_at(kept.len() - tail.len());
    let separator = list.separator(text);
    spliced(
        text,
        &list.at,
        &format!("{head}{separator}{entry}{tail}", entry = entry.text()),
    )
}

/// A list of the one plugin and ours. Its name and version are the list's from now on; all else stays with it.
fn as_list(text: &str, conf: &Conf, entry: &Entry) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let moves = |index: usize| ["name", "cniVersion"].contains(&&conf.members[index].key[..]);
    let wholes: Vec<_> = conf
        .members
        .iter()
        .map(|member| member.whole.clone())
        .collect();
    let plugin = json_span::without(text, &conf.at, &wholes, moves);
    let name = json_span::last(&conf.members, "name").map(|name| &text[name.value.clone()]);
    let name = name.filter(|name| *name != "\"\"").unwrap_or(DEFAULT_NAME);
    let version =
        json_span::last(&conf.members, "cniVersion").map_or_else(String::new, |version| {
            format!(
                "  \"cniVersion\": {},{newline}",
                &text[version.value.clone()]
            )
        });
    let list = format!(
        "{{{newline}{version}  \"name\": {name},{newline}  \"plugins\": [{newline}    \
         {plugin},{newline}    {entry}{newline}  ]{newline}}}",
        entry = entry.text(),
    );
    spliced(text, &conf.at, &list)
}

fn spliced(text: &str, at: &std::ops::Range<usize>, with: &str) -> String {
    [&text[..at.start], with, &text[at.end..]].concat()
}

#[cfg(test)]
mod tests;
