//! A configuration as libcni reads it, with the byte ranges of its parts.

mod field;
mod rule;

use std::ops::Range;

pub(super) use self::field::{Place, object, text_of};
use self::field::{expect, text_at};
use super::{Error, Kind};
use crate::cni::json_span::{self, Member, Shape};

/// A configuration that a runtime accepts.
#[derive(Debug)]
pub(super) enum Document {
    Conf(Conf),
    List(List),
}

#[derive(Debug)]
pub(super) struct Conf {
    pub(super) at: Range<usize>,
    pub(super) members: Vec<Member>,
    /// Its `type`.
    pub(super) plugin: String,
}

/// The array `plugins`, not empty.
#[derive(Debug)]
pub(super) struct List {
    pub(super) at: Range<usize>,
    pub(super) elements: Vec<Range<usize>>,
    /// The `type` of each.
    pub(super) plugins: Vec<String>,
}

impl Document {
    /// Accepts what the runtimes accept, and refuses what they refuse.
    pub(super) fn read(text: &str, kind: Kind) -> Result<Self, Error> {
        let at = object(text)?;
        let members = json_span::members(text, &at).map_err(Error::Json)?;
        let document = Self::of_kind(text, at, &members, kind)?;
        rule::check_versions(text, &members)?;
        Ok(document)
    }

    fn of_kind(
        text: &str,
        at: Range<usize>,
        members: &[Member],
        kind: Kind,
    ) -> Result<Self, Error> {
        match kind {
            Kind::Conf => {
                let plugin = match text_of(text, members, "type", Place::Top) {
                    Err(Error::Missing { .. }) if json_span::last(members, "plugins").is_some() => {
                        return Err(Error::ListInConf);
                    }
                    found => found?,
                };
                if let Some(name) = json_span::last(members, "name") {
                    text_at(text, &name.value, &Place::Top.of("name"))?;
                }
                Ok(Self::Conf(Conf {
                    at,
                    members: members.to_vec(),
                    plugin,
                }))
            }
            Kind::ConfList => {
                rule::check_name(text, members)?;
                rule::check_switches(text, members)?;
                List::read(text, members).map(Self::List)
            }
        }
    }
}

impl List {
    fn read(text: &str, members: &[Member]) -> Result<Self, Error> {
        let place = || "plugins".to_owned();
        let plugins =
            json_span::last(members, "plugins").ok_or_else(|| Error::Missing { place: place() })?;
        let at = plugins.value.clone();
        expect(text, &at, Shape::Array, place)?;
        let elements = json_span::elements(text, &at).map_err(Error::Json)?;
        if elements.is_empty() {
            return Err(Error::Empty { place: place() });
        }
        let plugin = |(index, at): (usize, &Range<usize>)| {
            let place = Place::Plugin(index);
            expect(text, at, Shape::Object, || place.to_string())?;
            let members = json_span::members(text, at).map_err(Error::Json)?;
            text_of(text, &members, "type", place)
        };
        let plugins = elements
            .iter()
            .enumerate()
            .map(plugin)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            at,
            elements,
            plugins,
        })
    }

    pub(super) fn of(&self, plugin: &str) -> impl Iterator<Item = usize> {
        let has = move |(_, name): &(usize, &String)| *name == plugin;
        let places = self.plugins.iter().enumerate().filter(has);
        places.map(|(index, _)| index)
    }

    /// Returns an error if usher's plugin is the only one.
    pub(super) fn require_chain(&self, ours: &str) -> Result<(), Error> {
        if self.of(ours).count() == self.plugins.len() {
            return Err(Error::Alone);
        }
        Ok(())
    }

    /// The text between two elements of the list.
    pub(super) fn separator(&self, text: &str) -> String {
        match &self.elements[..] {
            [first, second, ..] => text[first.end..second.start].to_owned(),
            [first, ..] => format!(",{}", &text[self.at.start + 1..first.start]),
            [] => ",".to_owned(),
        }
    }
}

/// The parts of a configuration that the removal of an entry needs.
#[derive(Debug)]
pub(super) struct Plugins {
    pub(super) array: Option<Array>,
    /// The `type` of a configuration that is not a list.
    pub(super) alone: Option<String>,
}

/// The array `plugins`, with elements of any form.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) at: Range<usize>,
    pub(super) elements: Vec<Range<usize>>,
    pub(super) types: Vec<Option<String>>,
}

/// Finds the plugins, and requires nothing else of the text.
pub(super) fn plugins(text: &str) -> Result<Plugins, Error> {
    let type_of = |at: &Range<usize>| {
        let members = json_span::members(text, at).ok()?;
        text_of(text, &members, "type", Place::Top).ok()
    };
    let whole = object(text)?;
    let members = json_span::members(text, &whole).map_err(Error::Json)?;
    let Some(plugins) = json_span::last(&members, "plugins") else {
        return Ok(Plugins {
            array: None,
            alone: type_of(&whole),
        });
    };
    let at = plugins.value.clone();
    expect(text, &at, Shape::Array, || "plugins".to_owned())?;
    let elements = json_span::elements(text, &at).map_err(Error::Json)?;
    let types = elements.iter().map(type_of).collect();
    Ok(Plugins {
        array: Some(Array {
            at,
            elements,
            types,
        }),
        alone: None,
    })
}
