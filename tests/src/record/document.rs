//! The record as data: the content of `target/bench/NAME.json`.

use std::io::{Error, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use super::Sample;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Document {
    pub bench: String,
    /// The command line that repeats it; empty if it was started differently.
    pub command: String,
    /// It measured less.
    pub is_quick: bool,
    /// Its start, in seconds since 1970.
    pub began_unix_s: u64,
    /// Its duration, in seconds.
    pub took_s: f64,
    /// The machine.
    pub about: About,
    /// The components under measurement and their versions.
    pub versions: Vec<(String, String)>,
    pub sections: Vec<Section>,
}

/// A machine, and its load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// The CPU model.
    pub cpu: String,
    /// The CPUs that this program may use.
    pub cores: usize,
    pub memory_mib: u64,
    /// The kernel release.
    pub kernel: String,
    /// The load average of one minute before the run.
    pub load_before: f64,
    /// The highest load average during the run, by the benchmark itself and by others.
    pub load_most: f64,
}

/// Results that belong together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Section {
    pub title: String,
    pub series: Vec<Series>,
    pub figures: Vec<Figure>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// What was measured.
    pub name: String,
    /// In milliseconds, sorted.
    pub ms: Vec<f64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// The report finds it by this key; empty if it does not need to.
    pub key: String,
    /// What was measured.
    pub what: String,
    /// The unit; empty for a count or a ratio.
    pub unit: String,
    /// The value; NaN if nothing could be measured.
    #[serde(deserialize_with = "number")]
    pub value: f64,
    /// The budget.
    pub limit: Option<Limit>,
    /// The alternative, and its value in the same unit.
    pub against: Option<(String, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Limit {
    AtMost(f64),
    Below(f64),
    /// Within these bounds.
    Between(f64, f64),
}

impl Limit {
    /// Whether a number keeps it. NaN does not.
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

    /// Adds the alternative.
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
    /// The number of exceeded budgets.
    pub fn broken(&self) -> usize {
        let figures = self.sections.iter().flat_map(|section| &section.figures);
        figures
            .filter(|figure| figure.is_kept() == Some(false))
            .count()
    }

    /// Writes it, replacing an older one.
    ///
    /// # Errors
    ///
    /// If the directory or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let json = serde_json::to_string(self)?;
        std::fs::write(path, json + "\n")
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the file does not exist or is no record.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)?;
        serde_json::from_str(&text).map_err(|error| Error::new(ErrorKind::InvalidData, error))
    }
}

/// JSON has no representation of NaN.
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
