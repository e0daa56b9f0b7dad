//! Checks as a text: a heading for each category and a line with a mark for each check. A problem is followed by its
//! consequence, its fix and its documentation.

use super::{Checks, Count, Outcome};
use crate::text::table::{Cell, Table, Tone};

impl Outcome {
    const fn mark(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("✓", Tone::Plain),
            Self::Skipped => ("-", Tone::Faint),
            Self::Warning => ("!", Tone::Warn),
            Self::Failed => ("✗", Tone::Bad),
        }
    }
}

pub fn text(checks: &Checks) -> Table {
    let mut table = Table::default();
    let mut category = None;
    for check in &checks.checks {
        if category.replace(check.category) != Some(check.category) {
            if !table.lead.is_empty() {
                table.lead("");
            }
            table.lead(Cell::new(check.category.as_str(), Tone::Strong));
        }
        let (sign, tone) = check.outcome.mark();
        let line = format!("  {sign} {}: {}", check.title, check.message);
        table.lead(Cell::new(line, tone));
        if let Some(fix) = &check.fix {
            table.lead(format!("      why:  {}", check.why));
            table.lead(format!("      fix:  {fix}"));
            table.lead(format!("      docs: {}", check.docs));
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
        (0, 0) => ("healthy", Tone::Good),
        (0, _) => ("healthy, with warnings", Tone::Warn),
        _ => ("unhealthy", Tone::Bad),
    };
    let line =
        format!("{verdict}: {ok} ok, {warnings} warnings, {failed} failed, {skipped} skipped");
    Cell::new(line, tone)
}
