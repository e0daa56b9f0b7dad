//! usher's entry in a list.

use serde_json::Value;

use super::{
    Error,
    document::{self, Place},
};
use crate::cni::json_span;

/// The object that becomes the last element of `plugins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    plugin: String,
    text: String,
    value: Value,
}

impl Entry {
    /// Parses the entry, which has no `cniVersion`: the list has one for all.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let at = document::object(text)?;
        let members = json_span::members(text, &at).map_err(Error::Json)?;
        let plugin = document::text_of(text, &members, "type", Place::Top)?;
        let wholes: Vec<_> = members.iter().map(|member| member.whole.clone()).collect();
        let is_version = |index: usize| members[index].key == "cniVersion";
        let text = json_span::without(text, &at, &wholes, is_version);
        let value = serde_json::from_str(&text).map_err(Error::Json)?;
        Ok(Self {
            plugin,
            text,
            value,
        })
    }

    /// Its `type`: the name of the plugin's binary.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether this element is equal, regardless of the order of keys.
    pub(super) fn is(&self, element: &str) -> bool {
        serde_json::from_str::<Value>(element).is_ok_and(|value| value == self.value)
    }
}
