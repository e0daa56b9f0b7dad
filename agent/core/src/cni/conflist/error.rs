//! Errors of a configuration, with their places.

use crate::cni::json_span::Shape;

/// Why a configuration cannot be used or edited.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Error {
    #[error("{length} bytes long, more than {longest}", longest = super::MAX_LENGTH)]
    TooLong { length: usize },
    #[error("with usher's entry {length} bytes long, more than {longest}", longest = super::MAX_LENGTH)]
    #[strum(to_string = "too-long")]
    Grown { length: usize },
    /// The source has line and column.
    #[error("not JSON")]
    Json(#[source] serde_json::Error),
    #[error("{place} is {found}, not {wanted}")]
    Shape {
        /// Where: `plugins[2].type`.
        place: String,
        found: Shape,
        wanted: Shape,
    },
    #[error("{place} is missing")]
    Missing { place: String },
    #[error("{place} is empty")]
    Empty { place: String },
    /// A list in a file for one plugin, in which the runtimes ignore `plugins`.
    #[error("a list in a file that is not called .conflist")]
    ListInConf,
    #[error("{place} is {version:?}, a version that usher-cni does not know")]
    Version { place: String, version: String },
    #[error("no plugin but usher's own")]
    Alone,
}

impl Error {
    /// The label in metrics.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}
