//! Rules for the fields of a list besides its plugins.

use std::ops::Range;

use super::field::{expect, text_at};
use crate::cni::{
    conflist::Error,
    json_span::{self, Member, Shape},
    protocol::VERSIONS,
};

const SWITCHES: [&str; 3] = ["disableCheck", "disableGC", "loadOnlyInlinedPlugins"];

/// libcni requires a name, which may be empty; CRI-O then uses the file's name.
pub(super) fn check_name(text: &str, members: &[Member]) -> Result<(), Error> {
    let place = "name".to_owned();
    match json_span::last(members, "name") {
        Some(name) => text_at(text, &name.value, &place).map(drop),
        None => Err(Error::Missing { place }),
    }
}

/// Checks the fields that must be true or false, also as strings, in the versions of libcni that read them.
pub(super) fn check_switches(text: &str, members: &[Member]) -> Result<(), Error> {
    for key in SWITCHES {
        let Some(switch) = json_span::last(members, key) else {
            continue;
        };
        let value = &text[switch.value.clone()];
        let found = json_span::shape(value);
        let is_text = ["\"true\"", "\"false\""]
            .iter()
            .any(|known| value.eq_ignore_ascii_case(known));
        if found != Shape::Bool && !is_text {
            return Err(Error::Shape {
                place: key.to_owned(),
                found,
                wanted: Shape::Bool,
            });
        }
    }
    Ok(())
}

/// CRI-O queries every plugin of a list for its versions, and drops the list if one does not support its version.
pub(super) fn check_versions(text: &str, members: &[Member]) -> Result<(), Error> {
    let known = |place: String, at: &Range<usize>| {
        let version = text_at(text, at, &place)?;
        // libcni treats an absent or empty version as 0.1.0.
        if version.is_empty() || VERSIONS.contains(&&version[..]) {
            return Ok(());
        }
        Err(Error::Version { place, version })
    };
    if let Some(version) = json_span::last(members, "cniVersion") {
        known("cniVersion".to_owned(), &version.value)?;
    }
    if let Some(versions) = json_span::last(members, "cniVersions") {
        let place = || "cniVersions".to_owned();
        expect(text, &versions.value, Shape::Array, place)?;
        let each = json_span::elements(text, &versions.value).map_err(Error::Json)?;
        for (index, at) in each.iter().enumerate() {
            known(format!("cniVersions[{index}]"), at)?;
        }
    }
    Ok(())
}
