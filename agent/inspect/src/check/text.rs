//! Checks as a person reads them: a heading for each category, a line with a mark for each check, and under one that is
//! not well why it matters, what mends it and where more is said.

use super::{Check, Checks, Count, Outcome};
use crate::text::table::{Cell, Table, Tone};

impl Outcome {
    /// Its sign, and what is to be thought of it.
    const fn mark(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("✓", Tone::Plain),
            Self::Skipped => ("-", Tone::Faint),
            Self::Warning => ("!", Tone::Warn),
            Self::Failed => ("✗", Tone::Bad),
        }
    }
}

/// All of it; `is_short` leaves out what is well and what does not apply.
pub fn text(checks: &Checks, is_short: bool) -> Table {
    let mut table = Table::default();
    let mut category = None;
    let is_told =
        |check: &&Check| !is_short || matches!(check.outcome, Outcome::Warning | Outcome::Failed);
    for check in checks.checks.iter().filter(is_told) {
        if category.replace(check.category) != Some(check.category) {
            if !table.lead.is_empty() {
                table.lead("");
            }
            table.lead(Cell::new(check.category.as_str(), Tone::Strong));
        }
        let (sign, tone) = check.outcome.mark();
        let line = format!("  {sign} {}: {}", check.title, check.saw);
        table.lead(Cell::new(line, tone));
        if let Some(mend) = &check.mend {
            table.lead(format!("      why:  {}", check.why));
            table.lead(format!("      mend: {mend}"));
            table.lead(format!("      more: {}", check.docs));
        }
    }
    if !table.lead.is_empty() {
        table.lead("");
    }
    table.lead(sum(&checks.count));
    table
}

fn sum(count: &Count) -> Cell {
    let Count {
        ok,
        warnings,
        failed,
        skipped,
    } = count;
    let (verdict, tone) = match (failed, warnings) {
        (0, 0) => ("all is well", Tone::Good),
        (0, _) => ("it works, with warnings", Tone::Warn),
        _ => ("something does not work", Tone::Bad),
    };
    let line =
        format!("{verdict}: {ok} ok, {warnings} warnings, {failed} failed, {skipped} skipped");
    Cell::new(line, tone)
}
