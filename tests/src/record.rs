//! The results of a benchmark: a printed table, and a file for the report.
//!
//! A benchmark begins a [`Record`], opens sections in it, adds times ([`Sample`]) and figures with their budgets, and
//! finishes it. The table goes to standard output. If [`FILE_VARIABLE`] names a file, as `cargo xtask bench` does, the
//! [`Document`] goes there as JSON, for `cargo xtask bench report`.

pub mod document;
mod sample;
mod surroundings;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use self::document::{Document, Figure, Limit, Section, Series};
pub use self::sample::{Sample, quantile};

/// Names the file of the record.
pub const FILE_VARIABLE: &str = "USHER_BENCH_RECORD";
/// The command line that repeats the run.
pub const COMMAND_VARIABLE: &str = "USHER_BENCH_COMMAND";
const QUICK: &str = "--quick";
const ENFORCE: &str = "--enforce";

/// Whether the benchmark should measure less.
pub fn is_quick() -> bool {
    has_flag(QUICK)
}

/// Whether this program got a flag.
pub fn has_flag(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}

/// A record in progress.
#[derive(Debug)]
pub struct Record {
    document: Document,
    began: Instant,
}

impl Record {
    /// Begins the record of the benchmark of this name.
    pub fn begin(bench: &str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let document = Document {
            bench: bench.to_owned(),
            command: std::env::var(COMMAND_VARIABLE).unwrap_or_default(),
            is_quick: is_quick(),
            began_unix_s: since.map_or(0, |since| since.as_secs()),
            took_s: 0.0,
            about: surroundings::about(),
            versions: Vec::new(),
            sections: Vec::new(),
        };
        Self {
            document,
            began: Instant::now(),
        }
    }

    /// Records the version of a component under measurement.
    pub fn version(&mut self, of: &str, version: &str) {
        let pair = (of.to_owned(), version.to_owned());
        self.document.versions.push(pair);
    }

    /// Opens a section; its times share one chart.
    pub fn section(&mut self, title: &str) {
        self.look_at_load();
        self.document.sections.push(Section::new(title));
    }

    /// Adds the times of one kind; nothing if there are none.
    pub fn times(&mut self, what: &str, sample: &Sample) {
        if sample.is_empty() {
            return;
        }
        let series = Series::new(what, sample);
        self.open().series.push(series);
    }

    /// Adds a number without a budget. The text behind the last comma is its unit.
    pub fn figure(&mut self, what: &str, value: f64) -> &mut Figure {
        self.add(Figure::new("", what, value, None))
    }

    /// The same with a key for the report.
    pub fn keyed(&mut self, key: &str, what: &str, value: f64) -> &mut Figure {
        self.add(Figure::new(key, what, value, None))
    }

    /// Adds a number with its budget; the key names it in the report.
    pub fn limit(&mut self, key: &str, what: &str, value: f64, limit: Limit) -> &mut Figure {
        self.add(Figure::new(key, what, value, Some(limit)))
    }

    /// Prints the table and writes the record if a file is named. With `--enforce`, fails if a budget was exceeded.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn finish(mut self) -> ExitCode {
        self.look_at_load();
        self.document.took_s = self.began.elapsed().as_secs_f64();
        text::print(&self.document);
        if let Some(path) = std::env::var_os(FILE_VARIABLE).map(PathBuf::from) {
            self.document.write(&path).expect("the record has a place");
        }
        if has_flag(ENFORCE) && self.document.broken() > 0 {
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }

    fn add(&mut self, figure: Figure) -> &mut Figure {
        let figures = &mut self.open().figures;
        figures.push(figure);
        figures.last_mut().expect("pushed above")
    }

    fn open(&mut self) -> &mut Section {
        let sections = &mut self.document.sections;
        sections.last_mut().expect("a section was begun")
    }

    fn look_at_load(&mut self) {
        let most = &mut self.document.about.load_most;
        *most = most.max(surroundings::load());
    }
}
