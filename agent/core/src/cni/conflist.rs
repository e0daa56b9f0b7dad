//! The entry of usher's plugin in a CNI configuration: text in, text out.
//!
//! A runtime reads the node's network from one file. If it cannot read that file, the whole node has no network
//! ([libcni's parser](https://github.com/containernetworking/cni/blob/v1.3.0/libcni/conf.go) decides). So this module
//! changes as little as possible: it locates the elements of `plugins` and edits that array only. Order of keys,
//! spacing, line ends and numbers elsewhere stay byte for byte, which a parse and a re-serialisation would not keep,
//! and an appended entry can be removed without a trace.
//!
//! It refuses ([`Error`]) what libcni would refuse, and what usher's entry would make unusable. The caller checks
//! UTF-8, and reads and replaces the files.

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

/// The longest accepted network configuration.
pub const MAX_LENGTH: usize = 1024 * 1024;

/// libcni accepts any name, and hand-written files often have none; Istio's installer sets this one.
const DEFAULT_NAME: &str = "\"k8s-pod-network\"";

/// The kind of a configuration, by the file's extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `.conf` and `.json`: one plugin. usher's entry turns it into a list, and its file must then be called
    /// `.conflist`.
    Conf,
    /// `.conflist`: a list of plugins.
    ConfList,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// The file is correct.
    Unchanged,
    /// The new text of the file, which is a list.
    Text(String),
    /// The list would be empty, which is not a valid configuration: the file contains usher's entry only.
    NothingLeft,
}

/// The state of usher's entry in a list.
#[derive(Debug)]
pub enum State {
    /// The entry exists once, is the last one and is up to date.
    Installed,
    /// The entry is absent, as in every file that is not a list.
    Absent,
    Stale,
    /// The entry exists once, and another plugin follows it.
    NotLast {
        is_current: bool,
    },
    Repeated {
        count: usize,
    },
    /// The runtimes or usher cannot use this file.
    Unusable(Error),
}

/// Whether a file has the name that the setting `cni.conf` gives, without extensions. An agent makes `NAME.json` a list
/// that is called `NAME.json.conflist`.
pub fn has_stem(file: &str, stem: Option<&str>) -> bool {
    let own = file.rsplit_once('.').map_or(file, |(own, _extension)| own);
    let own = own.strip_suffix(".json").unwrap_or(own);
    stem.is_none_or(|stem| own == stem)
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

/// Makes the entry the last one of the list, without duplicates; a single configuration becomes a list.
///
/// # Errors
/// Any [`Error`]; the file must then stay unchanged.
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

/// Removes every entry of this plugin from the list, regardless of its content, and even if the list is otherwise
/// invalid. A configuration that is not a list has no entry, unless it is the configuration of usher's plugin alone.
///
/// # Errors
/// [`Error::TooLong`], [`Error::Json`] or [`Error::Shape`]: the plugins cannot be read.
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

/// Whether a valid configuration contains the plugin's name anywhere. Plugins that call plugins, such as Multus, copy the
/// entry into parts of their own configuration, which [`remove`] does not edit.
pub fn contains(text: &str, plugin: &str) -> bool {
    json_span::has_string(text, plugin)
}

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
    let is_current = entry.is(&text[list.elements[*index].clone()]);
    if ours.len() > 1 {
        State::Repeated { count: ours.len() }
    } else if index + 1 != list.elements.len() {
        State::NotLast { is_current }
    } else if is_current {
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
    // After the last element that stays, only white space and the bracket follow.
    let tail = list.elements[list.elements.len() - 1].end..list.at.end;
    let (head, tail) = kept.split_at(kept.len() - tail.len());
    let separator = list.separator(text);
    spliced(
        text,
        &list.at,
        &format!("{head}{separator}{entry}{tail}", entry = entry.text()),
    )
}

/// A list of the existing plugin and usher's. The list takes name and version of the plugin, which keeps the rest.
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
