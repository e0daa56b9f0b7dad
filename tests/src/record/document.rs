//! The record as data: what is in `target/bench/NAME.json`.

use std::io::{Error, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use super::Sample;

/// One run of one benchmark.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Document {
    /// Its name.
    pub bench: String,
    /// The command line that does it again; empty where it was started in another way.
    pub command: String,
    /// Less was measured.
    pub is_quick: bool,
    /// When it began, in seconds since 1970.
    pub began_unix_s: u64,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// Where.
    pub about: About,
    /// What it was measured with, each with its version.
    pub versions: Vec<(String, String)>,
    /// What was measured.
    pub sections: Vec<Section>,
}

/// A machine, and how busy it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this program may use.
    pub cores: usize,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Load average of one minute before anything was done.
    pub load_before: f64,
    /// The highest while it was measured, by the benchmark itself and by others.
    pub load_most: f64,
}

/// Things that belong together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Section {
    /// What it is about.
    pub title: String,
    /// Times.
    pub series: Vec<Series>,
    /// Numbers.
    pub figures: Vec<Figure>,
}

/// Times of one kind, all of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// What took so long.
    pub name: String,
    /// In milliseconds, sorted.
    pub ms: Vec<f64>,
}

/// A number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// By which the report finds it; empty where it need not.
    pub key: String,
    /// What it is.
    pub what: String,
    /// Its unit; empty for a number of things or a ratio.
    pub unit: String,
    /// The number; not a number where nothing could be measured.
    #[serde(deserialize_with = "number")]
    pub value: f64,
    /// What it may be.
    pub limit: Option<Limit>,
    /// What it is compared with, and that one's number in the same unit.
    pub against: Option<(String, f64)>,
}

/// A budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Limit {
    /// Up to this.
    AtMost(f64),
    /// Less than this.
    Below(f64),
    /// Not outside of these.
    Between(f64, f64),
}

impl Limit {
    /// Whether a number keeps it. What was not measured does not.
    pub fn is_kept_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::Below(bound) => value < bound,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }
}

impl Section {
    pub(super) fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            series: Vec::new(),
            figures: Vec::new(),
        }
    }
}

impl Series {
    pub(super) fn new(name: &str, sample: &Sample) -> Self {
        Self {
            name: name.to_owned(),
            ms: sample.sorted_ms(),
        }
    }
}

impl Figure {
    pub(super) fn new(key: &str, what: &str, value: f64, limit: Option<Limit>) -> Self {
        let (what, unit) = what.rsplit_once(", ").unwrap_or((what, ""));
        Self {
            key: key.to_owned(),
            what: what.to_owned(),
            unit: unit.to_owned(),
            value,
            limit,
            against: None,
        }
    }

    /// Says what it is compared with.
    pub fn against(&mut self, what: &str, value: f64) -> &mut Self {
        self.against = value.is_finite().then(|| (what.to_owned(), value));
        self
    }

    /// Whether its budget was kept, if it has one.
    pub fn is_kept(&self) -> Option<bool> {
        self.limit.map(|limit| limit.is_kept_by(self.value))
    }
}

impl Document {
    /// How many budgets were not kept.
    pub fn broken(&self) -> usize {
        let figures = self.sections.iter().flat_map(|section| &section.figures);
        figures
            .filter(|figure| figure.is_kept() == Some(false))
            .count()
    }

    /// Writes it, in place of an older one.
    ///
    /// # Errors
    ///
    /// When the directory or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let json = serde_json::to_string(self)?;
        std::fs::write(path, json + "\n")
    }

    /// Reads one again.
    ///
    /// # Errors
    ///
    /// When there is none, or it is not one.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)?;
        serde_json::from_str(&text).map_err(|error| Error::new(ErrorKind::InvalidData, error))
    }
}

/// JSON has no word for what is not a number.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(from).map(|number| number.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_include_their_bounds() {
        assert!(Limit::AtMost(1.0).is_kept_by(1.0));
        assert!(!Limit::AtMost(1.0).is_kept_by(1.1));
        assert!(!Limit::Below(1.0).is_kept_by(1.0));
        assert!(Limit::Between(0.95, 1.05).is_kept_by(0.95));
        assert!(!Limit::Between(0.95, 1.05).is_kept_by(0.94));
        for limit in [Limit::AtMost(1.0), Limit::Below(1.0)] {
            assert!(!limit.is_kept_by(f64::NAN), "nothing was measured");
        }
    }

    #[test]
    fn missing_measurement_round_trips() {
        let figure = Figure::new("a", "p50, ms", f64::NAN, Some(Limit::AtMost(1.0)));
        let json = serde_json::to_string(&figure).unwrap();
        let read: Figure = serde_json::from_str(&json).unwrap();
        assert_eq!(read.is_kept(), Some(false));
    }

    #[test]
    fn unit_follows_the_last_comma() {
        let figure = Figure::new("", "first output, with an agent, ms", 1.0, None);
        assert_eq!(figure.what, "first output, with an agent");
        assert_eq!(figure.unit, "ms");
        assert_eq!(Figure::new("", "p50", 1.0, None).unit, "");
    }
}
