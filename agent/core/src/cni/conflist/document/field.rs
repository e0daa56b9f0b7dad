//! One part of a configuration: its position and a check of its type.

use std::{fmt, ops::Range};

use crate::cni::{
    conflist::{Error, MAX_LENGTH},
    json_span::{self, Member, Shape},
};

/// A part of a configuration, as errors name it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Top,
    Plugin(usize),
}

impl Place {
    pub(super) fn of(self, key: &str) -> String {
        match self {
            Self::Top => key.to_owned(),
            Self::Plugin(_) => format!("{self}.{key}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => formatter.write_str("the configuration"),
            Self::Plugin(index) => write!(formatter, "plugins[{index}]"),
        }
    }
}

pub(crate) fn object(text: &str) -> Result<Range<usize>, Error> {
    let length = text.len();
    if length > MAX_LENGTH {
        return Err(Error::TooLong { length });
    }
    let at = json_span::value(text).map_err(Error::Json)?;
    expect(text, &at, Shape::Object, || Place::Top.to_string())?;
    Ok(at)
}

pub(crate) fn text_of(
    text: &str,
    members: &[Member],
    key: &str,
    place: Place,
) -> Result<String, Error> {
    let Some(member) = json_span::last(members, key) else {
        return Err(Error::Missing {
            place: place.of(key),
        });
    };
    let found = text_at(text, &member.value, &place.of(key))?;
    if found.is_empty() {
        return Err(Error::Empty {
            place: place.of(key),
        });
    }
    Ok(found)
}

pub(super) fn text_at(text: &str, at: &Range<usize>, place: &str) -> Result<String, Error> {
    expect(text, at, Shape::Text, || place.to_owned())?;
    serde_json::from_str(&text[at.clone()]).map_err(Error::Json)
}

pub(super) fn expect(
    text: &str,
    at: &Range<usize>,
    wanted: Shape,
    place: impl FnOnce() -> String,
) -> Result<(), Error> {
    let found = json_span::shape(&text[at.clone()]);
    if found == wanted {
        return Ok(());
    }
    Err(Error::Shape {
        place: place(),
        found,
        wanted,
    })
}
