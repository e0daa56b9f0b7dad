//! What a benchmark measured: printed as a table for the person who waits for it, and written down for the report.
//!
//! A benchmark begins a [`Record`], opens sections in it, adds times ([`Sample`]) and figures with their budgets, and
//! finishes it. The table goes to standard output; where [`FILE_VARIABLE`] names a file, as `cargo xtask bench` has it, the
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

/// Names the file that the record goes to.
pub const FILE_VARIABLE: &str = "USHER_BENCH_RECORD";
/// Says the command line that a person gives to have it again.
pub const COMMAND_VARIABLE: &str = "USHER_BENCH_COMMAND";
/// A benchmark's own flags.
const QUICK: &str = "--quick";
const ENFORCE: &str = "--enforce";

/// Whether less is to be measured.
pub fn is_quick() -> bool {
    has_flag(QUICK)
}

/// Whether this program was given a flag.
pub fn has_flag(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}

/// A record that is being written.
#[derive(Debug)]
pub struct Record {
    document: Document,
    began: Instant,
}

impl Record {
    /// Of the benchmark of this name.
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

    /// Names a version of something that was measured with.
    pub fn version(&mut self, of: &str, version: &str) {
        let pair = (of.to_owned(), version.to_owned());
        self.document.versions.push(pair);
    }

    /// What follows belongs together; times of one section are drawn into one picture.
    pub fn section(&mut self, title: &str) {
        self.look_at_load();
        self.document.sections.push(Section::new(title));
    }

    /// Times of one kind; nothing where there are none.
    pub fn times(&mut self, what: &str, sample: &Sample) {
        if sample.is_empty() {
            return;
        }
        let series = Series::new(what, sample);
        self.open().series.push(series);
    }

    /// A number without a budget. Behind the last comma is its unit.
    pub fn figure(&mut self, what: &str, value: f64) -> &mut Figure {
        self.add(Figure::new("", what, value, None))
    }

    /// The same, which the report finds by this key.
    pub fn keyed(&mut self, key: &str, what: &str, value: f64) -> &mut Figure {
        self.add(Figure::new(key, what, value, None))
    }

    /// A number and its budget, whose name in the report is the key.
    pub fn limit(&mut self, key: &str, what: &str, value: f64, limit: Limit) -> &mut Figure {
        self.add(Figure::new(key, what, value, Some(limit)))
    }

    /// Prints the table and writes the record where one is wanted. Fails where budgets count and one was not kept.
    ///
    /// # Panics
    ///
    /// When the file cannot be written.
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
