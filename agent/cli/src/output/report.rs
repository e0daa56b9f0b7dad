//! The result of a command, as data.

use serde::{Serialize, de::DeserializeOwned};
use usher_inspect::text::table::Table;

/// A report that a command prints as a table, as JSON or as YAML.
pub(crate) trait Report: Serialize {
    /// The `kind` of the JSON document, such as `Pods`.
    const KIND: &'static str;

    /// The report as a table; `wide` adds columns and does not limit the width.
    fn table(&self, wide: bool) -> Table;
}

/// A report that a sysdump stores and that `--file` reads back.
pub(crate) trait SysdumpReport: Serialize + DeserializeOwned {
    /// The `kind` of the JSON document, such as `Pods`.
    const KIND: &'static str;
    /// The subcommand, which is also the file's name in the sysdump.
    const NAME: &'static str;
}
