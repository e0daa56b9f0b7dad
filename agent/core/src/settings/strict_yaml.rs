//! Strict YAML: an unknown key or an invalid value is an error with file, line, column and key.

use serde::de::DeserializeOwned;
use serde_saphyr::Location;

/// Longest file that is accepted, in bytes.
pub(super) const LONGEST: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}{what}", place(.file, *.line, *.column), if .key.is_empty() { String::new() } else { format!("{}: ", .key) })]
pub struct BadConfig {
    pub file: String,
    /// Line, from 1; 0 where it is not known.
    pub line: u64,
    /// Column, from 1; 0 where it is not known.
    pub column: u64,
    /// The key, as a path: `recipes[0].quit[1].post.port`.
    pub key: String,
    pub what: String,
}

impl BadConfig {
    pub(super) fn new(file: &str, at: Option<Location>, key: String, what: String) -> Self {
        Self {
            file: file.to_owned(),
            line: at.map_or(0, |at| at.line()),
            column: at.map_or(0, |at| at.column()),
            key,
            what,
        }
    }
}

/// `FILE:LINE:COLUMN`, or `FILE` where the line is not known.
fn place(file: &str, line: u64, column: u64) -> String {
    match line {
        0 => file.to_owned(),
        _ => format!("{file}:{line}:{column}"),
    }
}

/// Parses a file; `file` is its name for errors.
pub(crate) fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, BadConfig> {
    if text.len() > LONGEST {
        let what = format!("longer than {LONGEST} bytes");
        return Err(BadConfig::new(file, None, String::new(), what));
    }
    let mut track = serde_path_to_error::Track::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |yaml| {
        T::deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track))
    });
    read.map_err(|error| {
        let key = track.path().to_string();
        let key = if key == "." { String::new() } else { key };
        let what = error.without_snippet().to_string();
        let mut bad = BadConfig::new(file, error.location(), key, what);
        // The error's own text ends with the place, which the prefix already has.
        let place = format!(" at line {}, column {}", bad.line, bad.column);
        if let Some(what) = bad.what.strip_suffix(&place) {
            bad.what = what.to_owned();
        }
        bad
    })
}
